"""`assignor lab simulate`: compare assignors with Spark's own assignments on simulated batches."""

import json
import math
from collections.abc import Sequence
from typing import Annotated

import typer

from assignor_bridge.errors import OptionError
from assignor_bridge.planner.batch import MAX_SLOTS
from streaming.cli.arguments import AsJson
from streaming.cli.assignors import Tail, make_finder, parse_names, parse_tail
from streaming.cli.output import make_printable, print_table
from streaming.simulator.play import SPARK_MAPPINGS, compare
from streaming.simulator.results import MappingResult
from streaming.simulator.scenario import Lags, Scenario

_DEFAULT_COST_US = 500.0
_COST_HELP = f"Processing time per record; the default is {_DEFAULT_COST_US:g} µs."
_HEAD = ("mapping", "median s", "over ideal", "worst", "tasks", "cold partitions")
_MAPPINGS = "spark,minPartitions,maxRecordsPerPartition,range,sticky,lag-aware,lag-aware-sticky"


def simulate(
    *,
    partitions: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Partitions of the topic.")
    ] = 64,
    executors: Annotated[int, typer.Option(min=1, max=MAX_SLOTS, help="Number of executors.")] = 8,
    slots: Annotated[str, typer.Option(help="Slots per executor; 1,4,16 alternates.")] = "1",
    batches: Annotated[int, typer.Option(min=1, help="Micro-batches to simulate.")] = 50,
    records: Annotated[
        int, typer.Option(min=0, max=10**12, help="Records that arrive per batch.")
    ] = 160_000,
    lags: Annotated[Lags, typer.Option(help="Distribution of the lags.")] = "zipf",
    skew: Annotated[
        float, typer.Option(min=0, max=50, help="Exponent for zipf, or sigma for lognormal.")
    ] = 1.2,
    noise: Annotated[
        float, typer.Option(min=0, max=10, help="Relative noise of each partition's record count.")
    ] = 0.1,
    cost_us: Annotated[
        float | None,
        typer.Option(min=0, max=1_000_000_000, metavar="MICROSECONDS", help=_COST_HELP),
    ] = None,
    cost_ms: Annotated[
        float | None, typer.Option(min=0, max=1_000_000, hidden=True, help="Former name, in ms.")
    ] = None,
    cost_skew: Annotated[
        float,
        typer.Option(min=1, max=1_000_000, help="Ratio of highest to lowest cost per record."),
    ] = 1.0,
    service_noise: Annotated[
        float, typer.Option(min=0, max=10, help="Relative noise of a partition's time.")
    ] = Scenario().service_noise,
    slow: Annotated[str, typer.Option(help="Slowdown by executor number, such as 3=2.5.")] = "",
    churn_every: Annotated[
        int,
        typer.Option(
            "--churn", min=0, help="Every N batches, remove an executor for N/2 of them; 0: never."
        ),
    ] = 0,
    zones: Annotated[
        int,
        typer.Option(min=0, max=64, help="Number of zones for executors and replicas; 0: none."),
    ] = 0,
    replication: Annotated[
        int, typer.Option(min=1, max=64, help="Number of zones with a replica of a partition.")
    ] = 1,
    locality_wait: Annotated[
        float, typer.Option(min=0, max=1_000_000, help="spark.locality.wait, in seconds.")
    ] = 3.0,
    assignors: Annotated[
        str,
        typer.Option(
            help="Mappings to compare, separated by commas: assignor names, "
            f"{', '.join(SPARK_MAPPINGS)}; the last two accept =NUMBER."
        ),
    ] = _MAPPINGS,
    tail: Tail = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same batches.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Compare assignors with Spark's own assignments on the same batches, without a cluster.

    Example: `assignor lab simulate --partitions 64 --executors 8 --lags zipf`
    """
    if replication > max(zones, 1):
        raise OptionError(f"--replication is {replication}: at least as many --zones are expected")
    if churn_every and executors < 2:
        raise OptionError("--churn needs at least 2 --executors, because it removes one")
    if cost_us is not None and cost_ms is not None:
        raise OptionError("--cost-ms is the former --cost-us, in milliseconds: give only --cost-us")
    cost_s = (_DEFAULT_COST_US if cost_us is None else cost_us) / 1e6
    if cost_ms is not None:
        cost_s = cost_ms / 1e3
    scenario = Scenario(
        partitions=partitions,
        executors=executors,
        slots=tuple(_parse_slots("--slots", slots, MAX_SLOTS // executors)),
        batches=batches,
        records=records,
        lags=lags,
        skew=skew,
        noise=noise,
        cost=cost_s,
        cost_skew=cost_skew,
        service_noise=service_noise,
        slowness_by_index=_parse_slowness(slow, executors),
        churn_every=churn_every,
        zones=zones,
        replication=replication,
        seed=seed,
    )
    mapping_names = parse_names(assignors)
    options = parse_tail(tail)
    find_assignor = make_finder(mapping_names, "--assignors")
    results: list[MappingResult] = []
    for name in mapping_names:
        typer.echo(f"simulating {make_printable(name)} …", err=True)
        results += compare(
            scenario,
            [name],
            find_assignor=find_assignor,
            locality_wait_s=locality_wait,
            options=options,
        )
    if as_json:
        for result in results:
            typer.echo(json.dumps(_to_json(result)))
    else:
        print_table(*_to_table(results))


def _to_table(results: Sequence[MappingResult]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the head and the rows of a table, with a cross-zone column if there are zones."""
    rows = []
    for result in results:
        shares = (result.mean_regret_share, result.worst_regret_share, result.mean_cold_share)
        mean_regret, worst_regret, cold = (f"{share:.1%}" for share in shares)
        seconds, tasks = f"{result.median_seconds:.3f}", f"{result.mean_tasks:,.0f}"
        rows.append([result.name, seconds, mean_regret, worst_regret, tasks, cold])
    if all(r.mean_cross_zone_share is None for r in results):
        return _HEAD, rows
    zone_cells = [f"{r.mean_cross_zone_share or 0:.1%}" for r in results]
    return (*_HEAD, "cross-zone"), [[*row, z] for row, z in zip(rows, zone_cells, strict=True)]


def _to_json(result: MappingResult) -> dict[str, object]:
    share = result.mean_cross_zone_share
    return {
        "name": result.name,
        "medianSeconds": round(result.median_seconds, 6),
        "meanOver": round(result.mean_regret_share, 6),
        "worstOver": round(result.worst_regret_share, 6),
        "tasks": round(result.mean_tasks, 2),
        "brokenContinuities": round(result.mean_cold_share, 6),
        **({} if share is None else {"crossZoneShare": round(share, 6)}),
    }


def _parse_slots(option: str, text: str, max_slots: int) -> list[int]:
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = [0]
    if not 1 <= min(values) <= max(values) <= max_slots:
        raise OptionError(
            f"{option} is {text!r}: whole numbers from 1 to {max_slots} and commas are expected"
        )
    return values


def _parse_slowness(text: str, executors: int) -> dict[int, float]:
    slowness_by_index = {}
    for part in filter(None, text.split(",")):
        number, _, factor = part.partition("=")
        try:
            slowness_by_index[int(number)] = float(factor)
        except ValueError:
            slowness_by_index[-1] = 0.0
    if any(not 0 <= n < executors or not 0 < f < math.inf for n, f in slowness_by_index.items()):
        raise OptionError(
            f"--slow is {text!r}: executors from 0 to {executors - 1} with finite factors above 0 "
            "are expected, such as 0=2.5"
        )
    return slowness_by_index
