"""What is known of one query, gathered from its checkpoint, Spark's UI and the log of its metrics.

Each of them knows what the others do not: the checkpoint what was read and what the planner
remembers, the UI which task ran where and when, the log the lag and what the planner reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError
from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.simulator.play import SPARK_MAPPINGS
from streaming.observe.progress_log import read_batches
from streaming.observe.spark_ui import SparkUi, choose_query
from streaming.observe.web import Address
from streaming.observe.which_query import one_query
from streaming.replay.cluster import cluster_for
from streaming.replay.log import CheckpointLog, read_log
from streaming.replay.plan_log import is_plan_log, logged_tasks
from streaming.replay.player import replay
from streaming.replay.traffic import PRICE_PER_GB, traffic_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.observe.figures import RunFigures
    from streaming.observe.query_progress import BatchProgress
    from streaming.replay.log import ReplayBatch
    from streaming.replay.plan_log import LoggedPlan, LoggedTasks
    from streaming.replay.racks import Racks
    from streaming.replay.replayed import Replay

#: Batches whose tasks are fetched from the UI, one request each.
_UI_BATCHES = 20
#: Ranges that are replayed at most: those of the last batches.
_REPLAYED_RANGES = 15_000
_ADDRESS = re.compile(r"https?://|[\w.-]+:\d+(/|$)")
_HOW = (
    "a checkpoint's folder, an address of Spark's UI (http://…), a log of metrics or a plan log is "
    "expected"
)


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """Everything that a report is drawn from; empty where nothing is known."""

    title: str
    log: CheckpointLog | None = None
    #: Batches with data, in order.
    progress: Sequence[BatchProgress] = ()
    ui: RunFigures | None = None
    #: One for each Kafka source of the checkpoint.
    replays: Sequence[Replay] = ()
    #: The plans of the plan log, by source, in order.
    plans: Mapping[str, Sequence[LoggedPlan]] = field(default_factory=dict)
    #: What was looked at: kind and place.
    origins: Sequence[tuple[str, str]] = field(default_factory=list)
    #: What a GB across zones costs.
    price_per_gb: float = PRICE_PER_GB


def gather(
    places: Sequence[str],
    query: str | None = None,
    batches: int | None = None,
    racks: Racks | None = None,
    price_per_gb: float = PRICE_PER_GB,
) -> QueryFacts:
    """Read all places, which must tell of the same query.

    Parameters
    ----------
    places
        A checkpoint's folder, an address of Spark's UI, a file of `metrics.log_file` or of
        `assignor.planLog`; one of each at most.
    query
        Name or id, where a place knows several.
    batches
        Only the last N.
    racks, price_per_gb
        Where executors and replicas are, if somebody knows, and what a GB between costs.

    Raises
    ------
    OptionError
        For a place that is none of these, a second of a kind, or an unclear query.
    WebError
        For an address that does not answer.
    """
    by_kind = _by_kind(places)
    origins: list[tuple[str, str]] = []
    log, replays, label = None, [], None
    logged: dict[str, LoggedTasks] = {}
    if "checkpoint" in by_kind:
        log = _last_of(read_log(by_kind["checkpoint"]), batches)
        of_query = log.checkpoint.query_id
        origins.append(
            ("checkpoint", f"{log.checkpoint.name}, query {of_query or 'of unknown id'}")
        )
        query = query or of_query
    progress: Sequence[BatchProgress] = ()
    if "log" in by_kind:
        progress = _of_query(by_kind["log"], query, batches)
        origins.append(("log of metrics", by_kind["log"]))
        _check_same(log, progress[0].query_id, by_kind["log"])
        query, label = progress[0].query_id, progress[-1].label
    ui = None
    if "address" in by_kind:
        spark = SparkUi(Address.parse(by_kind["address"]))
        mine = choose_query(spark.batches(), query, spark.address)
        _check_same(log, mine[0].query_id, str(spark.address))
        label = mine[-1].label
        ended = [batch for batch in mine if batch.seconds is not None]
        ui = spark.run(ended[-(batches or _UI_BATCHES) :])
        origins.append(("Spark's UI", f"{spark.address}, {ui.name}"))
    plan_log = by_kind.get("plan log")
    if plan_log is not None:
        if log is None:
            raise OptionError(f"{plan_log!r} is a plan log: also give the query's checkpoint")
        origins.append(("plan log", plan_log))
    if log is not None:
        last = {source: _replayed(batches) for source, batches in log.sources.items()}
        if plan_log is not None:
            logged = logged_tasks(Path(plan_log), last)
        replays = [
            _replay(log, source, played, ui, racks, price_per_gb, logged.get(source))
            for source, played in last.items()
        ]
    title = f"Query {label}" if label else f"Query of {log.checkpoint.name if log else ''}"
    plans = {source: of.plans for source, of in logged.items()}
    return QueryFacts(title, log, progress, ui, replays, plans, origins, price_per_gb)


def _check_same(log: CheckpointLog | None, query_id: str, place: str) -> None:
    """Refuse a place of another query: one of the same name may have another checkpoint."""
    known = log.checkpoint.query_id if log else None
    if known and query_id != known:
        raise OptionError(
            f"{place} tells of query {query_id}, the checkpoint is that of {known}: give places "
            "of one query"
        )


def _by_kind(places: Sequence[str]) -> dict[str, str]:
    by_kind: dict[str, str] = {}
    for place in places:
        if _ADDRESS.match(place) and not Path(place).exists():
            kind = "address"
        elif Path(place).is_file():
            kind = "plan log" if is_plan_log(Path(place)) else "log"
        else:
            kind = "checkpoint"
        if kind in by_kind:
            raise OptionError(f"{place!r} is a second {kind}: give one of each kind")
        by_kind[kind] = place
    if not by_kind:
        raise OptionError(f"nothing to report on: {_HOW}")
    return by_kind


def _last_of(log: CheckpointLog, batches: int | None) -> CheckpointLog:
    last = {source: logged[-(batches or 0) :] for source, logged in log.sources.items()}
    return replace(log, sources=last)


def _replayed(batches: Sequence[ReplayBatch]) -> list[ReplayBatch]:
    """Return the last batches, as many as are replayed."""
    played: list[ReplayBatch] = []
    ranges = 0
    for batch in reversed(batches):
        ranges += len(batch.ranges)
        if ranges > _REPLAYED_RANGES and played:
            break
        played.insert(0, batch)
    return played


def _replay(  # noqa: PLR0917
    log: CheckpointLog,
    source: str,
    played: Sequence[ReplayBatch],
    ui: RunFigures | None,
    racks: Racks | None,
    price_per_gb: float,
    logged: LoggedTasks | None,
) -> Replay:
    # The plans of a batch are judged on the executors that it had; the UI has those of now.
    of_ui = logged is None and ui is not None and bool(ui.batches)
    cluster = cluster_for(
        log, source, played, racks=None if of_ui else racks,
        logged=logged.executors if logged else None,
    )  # fmt: skip
    if ui is not None and ui.batches:
        tasks = list(ui.measured_tasks)
        records = sum(task.records for task in tasks)
        cost_s = sum(task.seconds for task in tasks) / records if records else cluster.cost_s
        origins = {**cluster.origins, "cost": "by Spark's UI"}
        executors = cluster.executors
        if of_ui:
            origins["executors"] = "by Spark's UI"
            executors = ui.executors or executors
            if racks is not None:
                executors = racks.of_executors(executors)
        times = cost_s / cluster.cost_s  # what partitions differ by, the UI does not know
        unusual = {tp: cost * times for tp, cost in cluster.unusual.items()}
        cluster = replace(
            cluster, executors=executors, cost_s=cost_s, unusual=unusual, origins=origins
        )
    else:
        assumed = "assumed: also give the address of Spark's UI"
        origins = {
            name: assumed if origin.startswith("assumed") else origin
            for name, origin in cluster.origins.items()
        }
        cluster = replace(cluster, origins=origins)
    names = (*SPARK_MAPPINGS, LAG_AWARE_STICKY)
    traffic = None if racks is None else traffic_of(log, source, played, price_per_gb)
    return replay(
        log.title(source),
        played,
        cluster,
        names,
        racks=racks,
        traffic=traffic,
        logged=logged.tasks if logged else None,
    )


def _of_query(path: str, query: str | None, last: int | None) -> list[BatchProgress]:
    batches = read_batches(Path(path), last)
    chosen = one_query({p.query_id: p.label for p in batches}, query, f"log {path}")
    return [progress for progress in batches if progress.query_id == chosen]
