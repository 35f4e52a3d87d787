"""What reading across zones would cost a day: under Spark's mapping, and under each assignor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import elided
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.replay.traffic import GB
from streaming.simulator.play import SPARK_MAPPINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.replay.replayed import Replay
    from streaming.replay.traffic import Traffic
    from streaming.simulator.play import MappingResult

HEAD = ("mapping", "across zones", "GB a day", "cost a day", "times the ideal")
#: What the same assignor is called that plans as if there were no zones.
WITHOUT_ZONES = f"{LAG_AWARE_STICKY}, zones off"


def money_text(amount: float) -> str:
    """Write an amount of money of any currency.

    >>> [money(a) for a in (0, 0.0031, 3.14159, 41.2, 12345.6)]
    ['0.00', '0.0031', '3.14', '41.20', '12,346']
    """
    if 0 < amount < 0.1:
        return f"{amount:.2g}"
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.2f}"


def gigabytes_text(size: float) -> str:
    """Write a number of bytes as GB.

    >>> [gigabytes(size) for size in (0, 8_726_400_000, 8.64e12)]
    ['0', '8.73', '8,640']
    """
    return f"{size / GB:,.0f}" if size >= 100 * GB else f"{size / GB:.3g}"


def bill_rows(replay: Replay) -> list[list[str]]:
    """Return the rows of the table under `HEAD`; none where no partition's racks are known."""
    if replay.traffic is None:
        return []
    return [
        [name, f"{share:.1%}", *_a_day(replay.traffic, share), f"{result.times_ideal:.2f}"]
        for name, result, share in _shares(replay)
        if share is not None
    ]


def bill_answer(replay: Replay) -> str:
    """Say what a day costs now and with zones, and what zones do to the balance."""
    traffic = replay.traffic
    if traffic is None:
        return ""
    if not replay.knows_racks:
        return "Across zones: unknown, no partition's racks are known"
    least = "at least " * bool(_unknown(replay))
    known = {
        name: (result, least + _worth(traffic, share))
        for name, result, share in _shares(replay)
        if share is not None
    }
    named = {
        SPARK_MAPPINGS[0]: "Spark's mapping",
        LAG_AWARE_STICKY: f"{LAG_AWARE_STICKY} with zones",
    }
    parts = [f"{known[name][1]} by {words}" for name, words in named.items() if name in known]
    if not parts:
        return ""
    price = f", at {traffic.price_per_gb:g} per GB" * (traffic.bytes_a_day is not None)
    words = f"Across zones{price}: {', '.join(parts)}"
    if LAG_AWARE_STICKY in known and WITHOUT_ZONES in known:
        ours, (off, worth) = known[LAG_AWARE_STICKY][0], known[WITHOUT_ZONES]
        words += (
            f", at {ours.times_ideal:.2f} times the ideal time; without zones it would be {worth}, "
            f"at {off.times_ideal:.2f} times"
        )
    return words


def bill_json(replay: Replay) -> dict[str, object]:
    """As JSON values, for `--json`."""
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
                "costPerDay": None if share is None else traffic.cost_a_day(share),
                "timesIdeal": round(result.times_ideal, 6),
            }
            for name, result, share in _shares(replay)
        ],
    }


def bill_assumptions(replay: Replay) -> tuple[str, ...]:
    """Return what the bill rests on."""
    traffic, racks = replay.traffic, replay.racks
    if traffic is None or racks is None:
        return ()
    unknown = _unknown(replay)
    missing = f"; racks of {' and '.join(unknown)} are unknown" * bool(unknown)
    followers = "from a replica in their zone" if racks.followers else "from leaders, too"
    why = {
        True: "",
        False: ": the brokers have no rack-aware replica selector",
        None: ": the brokers do not say whether they have a replica selector",
    }[racks.followers]
    elsewhere = set(racks.executors.values()).difference(*racks.partitions.values())
    if elsewhere and replay.knows_racks:
        missing += (
            f"; no partition has a replica in {elided(sorted(elsewhere))}, where executors are"
        )
    rate = "the checkpoint has no times of batches: no cost a day"
    if traffic.bytes_a_day is not None:
        rate = f"{gigabytes_text(traffic.bytes_a_day)} GB a day, by the times of the batches"
    return (
        f"racks {racks.origin}{missing}; Spark's mappings read from leaders, assignors "
        f"{followers}{why}",
        f"{traffic.usual:,.0f} bytes a record on average ({traffic.origin}), before compression; "
        f"{rate}",
    )


def _unknown(replay: Replay) -> list[str]:
    """Count what has no rack that is known: reads of it, or by it, are near as far as we know."""
    cluster = replay.cluster
    racks = {e.id: e.rack for each in (cluster.executors, *cluster.by_batch.values()) for e in each}
    counts = {
        "partitions": (replay.partitions_without_rack, replay.partitions),
        "executors": (sum(not rack for rack in racks.values()), len(racks)),
    }
    return [f"{n:,} of {of:,} {what}" for what, (n, of) in counts.items() if n]


def _shares(replay: Replay) -> Iterator[tuple[str, MappingResult, float | None]]:
    results = [(m.name, m) for m in replay.mappings]
    if replay.without_zones is not None:
        results.append((WITHOUT_ZONES, replay.without_zones))
    for name, result in results:
        if result.error is None:
            yield name, result, replay.cross_zone(result)


def _a_day(traffic: Traffic, share: float) -> tuple[str, str]:
    cost = traffic.cost_a_day(share)
    if cost is None or traffic.bytes_a_day is None:
        return "", ""
    return gigabytes_text(share * traffic.bytes_a_day), money_text(cost)


def _worth(traffic: Traffic, share: float) -> str:
    cost = traffic.cost_a_day(share)
    return f"{share:.1%} of bytes" if cost is None else f"{money_text(cost)} a day"
