"""Describe the daily cost of reading across zones, with each mapping and assignor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import elide
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.replay.traffic import GB
from streaming.simulator.play import SPARK_MAPPINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.replay.replayed import Replay
    from streaming.replay.traffic import Traffic
    from streaming.simulator.results import MappingResult

HEAD = ("mapping", "across zones", "GB a day", "cost a day", "times the ideal")
#: Name of the result for lag-aware-sticky planned without zones.
WITHOUT_ZONES = f"{LAG_AWARE_STICKY}, zones off"


def format_money(amount: float) -> str:
    """Format an amount of money in any currency.

    >>> [format_money(a) for a in (0, 0.0031, 3.14159, 41.2, 12345.6)]
    ['0.00', '0.0031', '3.14', '41.20', '12,346']
    """
    if 0 < amount < 0.1:
        return f"{amount:.2g}"
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.2f}"


def format_gigabytes(size: float) -> str:
    """Format a number of bytes in GB.

    >>> [format_gigabytes(size) for size in (0, 8_726_400_000, 8.64e12)]
    ['0', '8.73', '8,640']
    """
    return f"{size / GB:,.0f}" if size >= 100 * GB else f"{size / GB:.3g}"


def build_bill_rows(replay: Replay) -> list[list[str]]:
    """Return table rows with the columns of `HEAD`; no rows without traffic or known racks."""
    if replay.traffic is None:
        return []
    return [
        [name, f"{share:.1%}", *_format_day(replay.traffic, share), f"{result.times_ideal:.2f}"]
        for name, result, share in _compute_cross_zone_shares(replay)
        if share is not None
    ]


def describe_bill(replay: Replay) -> str:
    """Describe the daily cost (or share of bytes) with Spark's default and the assignor; or ""."""
    traffic = replay.traffic
    if traffic is None:
        return ""
    if not replay.has_racks:
        return "Cost across zones: unknown, because no partition has a known rack"
    qualifier = "at least " * bool(_describe_unknown_racks(replay))
    ideal_texts, cost_texts = {}, {}
    for name, result, share in _compute_cross_zone_shares(replay):
        if share is not None:
            ideal_texts[name] = f"{result.times_ideal:.2f} times"
            cost_texts[name] = qualifier + _format_cost(traffic, share)
    labels = {
        SPARK_MAPPINGS[0]: "Spark's default",
        LAG_AWARE_STICKY: f"{LAG_AWARE_STICKY} and zones",
    }
    texts = [f"{cost_texts[n]} with {label}" for n, label in labels.items() if n in cost_texts]
    if not texts:
        return ""
    price_text = f", at {traffic.price_per_gb:g} per GB" * (traffic.bytes_a_day is not None)
    sentence = f"Cost across zones{price_text}: {', '.join(texts)}"
    if LAG_AWARE_STICKY in cost_texts and WITHOUT_ZONES in cost_texts:
        sentence += (
            f", at {ideal_texts[LAG_AWARE_STICKY]} the ideal time; without zones it would cost "
            f"{cost_texts[WITHOUT_ZONES]}, at {ideal_texts[WITHOUT_ZONES]}"
        )
    return sentence


def bill_to_json(replay: Replay) -> dict[str, object]:
    """Return the bill as JSON values for `--json`; empty without traffic."""
    traffic = replay.traffic
    if traffic is None:
        return {}
    return {
        "pricePerGb": traffic.price_per_gb,
        "bytesPerDay": traffic.bytes_a_day,
        "mappings": [
            {
                "name": name,
                "crossZoneShare": None if share is None else round(share, 6),
                "costPerDay": None if share is None else traffic.compute_daily_cost(share),
                "timesIdeal": round(result.times_ideal, 6),
            }
            for name, result, share in _compute_cross_zone_shares(replay)
        ],
    }


def list_bill_assumptions(replay: Replay) -> tuple[str, ...]:
    """Return the assumptions behind the bill; empty without traffic or racks."""
    traffic, racks = replay.traffic, replay.racks
    if traffic is None or racks is None:
        return ()
    unknown_racks = _describe_unknown_racks(replay)
    rack_notes = f"; the racks of {' and '.join(unknown_racks)} are unknown" * bool(unknown_racks)
    can_read_followers = racks.allows_follower_reads
    replicas_text = "from a replica in their zone" if can_read_followers else "from leaders too"
    why = {
        True: "",
        False: ", because the brokers have no rack-aware replica selector",
        None: ", because the brokers do not report whether they have a replica selector",
    }[can_read_followers]
    executor_racks, replica_racks = racks.executor_racks.values(), racks.replica_racks.values()
    racks_without_replica = sorted(set(executor_racks).difference(*replica_racks))
    if racks_without_replica and replay.has_racks:
        racks_text = elide(racks_without_replica)
        rack_notes += f"; executors run in {racks_text}, where no partition has a replica"
    rate_text = "no daily cost, which needs two batches with different times"
    if traffic.bytes_a_day is not None:
        rate_text = f"{format_gigabytes(traffic.bytes_a_day)} GB a day, from batch times"
    return (
        f"racks {racks.origin}{rack_notes}; Spark's assignments read from leaders, assignors "
        f"{replicas_text}{why}",
        f"{traffic.mean_offset_bytes:,.0f} bytes per offset on average ({traffic.origin}), before "
        f"compression; {rate_text}",
    )


def _describe_unknown_racks(replay: Replay) -> list[str]:
    """Describe how many partitions and executors have an unknown rack; their reads cost nothing."""
    executor_lists = (replay.cluster.executors, *replay.cluster.executors_by_batch.values())
    racks = {e.id: e.rack for executors in executor_lists for e in executors}
    counts = {
        "partitions": (replay.partitions_without_rack, replay.partition_count),
        "executors": (sum(not rack for rack in racks.values()), len(racks)),
    }
    return [f"{n:,} of {total:,} {noun}" for noun, (n, total) in counts.items() if n]


def _compute_cross_zone_shares(replay: Replay) -> Iterator[tuple[str, MappingResult, float | None]]:
    results = [(m.name, m) for m in replay.mappings]
    if replay.without_zones is not None:
        results.append((WITHOUT_ZONES, replay.without_zones))
    for name, result in results:
        if result.error is None:
            yield name, result, replay.compute_cross_zone_share(result)


def _format_day(traffic: Traffic, share: float) -> tuple[str, str]:
    cost = traffic.compute_daily_cost(share)
    if cost is None or traffic.bytes_a_day is None:
        return "", ""
    return format_gigabytes(share * traffic.bytes_a_day), format_money(cost)


def _format_cost(traffic: Traffic, share: float) -> str:
    cost = traffic.compute_daily_cost(share)
    return f"{share:.1%} of bytes" if cost is None else f"{format_money(cost)} a day"
