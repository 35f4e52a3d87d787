"""How a target's figure is read from the rows of a benchmark's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Rows = Sequence[Mapping[str, Any]]
    Figure = Callable[[Rows], float]


def where(rows: Rows, **cells: Any) -> list[Mapping[str, Any]]:
    """Return the rows with these cells; underscores in names stand for spaces, too."""
    named = {
        name if name in rows[0] else name.replace("_", " "): value for name, value in cells.items()
    }
    return [r for r in rows if all(r.get(name) == value for name, value in named.items())]


def reader(start: str, name: str, column: str = "median") -> Figure:
    """Read one workload's figure for a reader."""
    return lambda rows: next(
        float(r[column])
        for r in rows
        if r["workload"].startswith(start) and r["reader"] == name and "heap" not in r["unit"]
    )


def sticky(column: str, steps: Sequence[str], groups: Callable[[str], bool]) -> Figure:
    """Return the most of a column over some groups and steps of `sticky` beside Kafka's."""
    return lambda rows: max(
        float(r[column])
        for r in where(rows, assignor="sticky")
        if r["step"] in steps and groups(r["group"]) and r[column] != ""
    )


def planning(partitions: int) -> Figure:
    """Return the slowest of the plans without racks, by the first interpreter listed."""
    return lambda rows: max(
        float(r["ms_min"])
        for r in where(rows, partitions=partitions, python=rows[0]["python"])
        if r["case"] in {"first", "steady", "lost"}
    )


def beyond_a_record(rows: Rows) -> float:
    """Return the busiest slot over the mean, less what one record of a slot's fifty is worth."""
    return max(float(r["busiest/ideal"]) - r["slots"] / (50 * r["partitions"]) for r in rows)


def simulated(start: str, column: str = "over_ideal") -> Figure:
    return lambda rows: next(
        float(r[column])
        for r in where(rows, mapping="lag-aware-sticky")
        if r["scenario"].startswith(start)
    )


def times_ours(*mappings: str, no_wait: bool = False) -> Figure:
    """Return the least of how much longer these mappings take than ours, end to end."""
    return lambda rows: min(
        float(r["times_ours"])
        for r in rows
        if r["mapping"].startswith(mappings) and ("no wait" in r["mapping"]) is no_wait
    )


def fresh(sink: str, volumes: str, column: str, way: str = "assignor run") -> Figure:
    """Read a cell of 24 partitions and 5,000 records a second."""
    return lambda rows: float(
        where(
            rows, sink=sink, partitions=24, volumes=volumes, records_a_second=5000, way=way
        )[0][column]
    )  # fmt: skip


def ratio(column: str, of: Mapping[str, Any], to: Mapping[str, Any]) -> Figure:
    return lambda rows: float(where(rows, **of)[0][column]) / float(where(rows, **to)[0][column])


def trigger_over_floor(sink: str) -> Figure:
    def figure(rows: Rows) -> float:
        [row] = where(rows, sink=sink, **{"part of a batch, ms": "trigger"})
        return float(row["lag-aware-sticky"]) / float(row["rate source"])

    return figure


def ours(rows: Rows, *replicas: int) -> list[Mapping[str, Any]]:
    found = [r for r in where(rows, mapping="ours") if r["replicas"] in replicas]
    return [r for r in found if r["backlog"] == "no" and r["batch KB"] == rows[0]["batch KB"]]


def zone_batches(rows: Rows) -> float:
    """Return the most, over phases and replicas, of our median batch over Spark's."""
    spark = {(r["replicas"], r["phase"]): r["p50 s"] for r in where(rows, mapping="Spark")}
    return max(float(r["p50 s"]) / spark[r["replicas"], r["phase"]] for r in ours(rows, 1, 2, 3))


def most(column: str) -> Figure:
    return lambda rows: max(float(r[column]) for r in rows if r.get(column) not in {"", None})


def balanced_lags(rows: Rows) -> float:
    """Return the most, over balanced workloads, of our batch over that of Spark's default."""
    return max(
        1 / float(r["times_ours"])
        for r in where(rows, way="Spark: default")
        if r["workload"].startswith("balanced")
    )


def times_tuned_spark(rows: Rows) -> float:
    """Return the most, over workloads, of the lower end of our interval to tuned Spark."""
    intervals = [r["interval"] for r in where(rows, way="lag-aware-sticky")]
    return max(float(interval.partition(" ")[0]) for interval in intervals)


def lost_regimes(points: int) -> Figure:
    """Count the regimes in which a Spark setting is better by more than these points."""
    return lambda rows: sum(r["over_spark"] > points / 100 for r in rows)


def regret_at(share: float) -> Figure:
    """Return the regret that this share of the regimes does not exceed."""
    return lambda rows: float(sorted(r["regret"] for r in rows)[int(share * len(rows))])


def only(column: str, **cells: Any) -> Figure:
    return lambda rows: float(where(rows, **cells)[0][column])
