"""What is known of one query, gathered from its checkpoint, Spark's UI and the log of its metrics.

The checkpoint has the offsets read and the planner's memory, the UI has the place and time of each
task, the log has the lag and the planner's metrics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.observe.progress_log import read_batches
from streaming.observe.spark_ui import SparkUi, choose_query
from streaming.observe.web import Address
from streaming.observe.which_query import choose_query_id
from streaming.replay.cluster import cluster_for
from streaming.replay.log import CheckpointLog, read_log
from streaming.replay.plan_log import is_plan_log, logged_tasks
from streaming.replay.player import replay
from streaming.replay.replayed import SPARK
from streaming.replay.traffic import PRICE_PER_GB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.observe.figures import RunFigures
    from streaming.observe.query_progress import BatchProgress
    from streaming.replay.log import ReplayBatch
    from streaming.replay.plan_log import LoggedPlan, LoggedTasks
    from streaming.replay.replayed import Replay

#: Batches whose tasks are fetched from the UI, one request each.
_UI_BATCHES = 20
#: Ranges that are replayed at most: those of the last batches.
_REPLAYED_RANGES = 15_000
#: Kinds of places.
KINDS = ("checkpoint", "log of metrics", "plan log", "Spark's UI")
_ADDRESS = re.compile(r"https?://|[\w.-]+:\d+(/|$)")


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """Everything that a report is drawn from; empty if no place has it."""

    title: str
    log: CheckpointLog | None = None
    #: Batches with data, in order.
    progress: Sequence[BatchProgress] = ()
    ui: RunFigures | None = None
    #: One for each Kafka source of the checkpoint.
    replays: Sequence[Replay] = ()
    #: The plans of the plan log, by source, in order.
    plans: Mapping[str, Sequence[LoggedPlan]] = field(default_factory=dict)
    #: Kind and name of each place read.
    origins: Sequence[tuple[str, str]] = field(default_factory=list)
    #: Price of a GB that crosses zones.
    price_per_gb: float = PRICE_PER_GB


def gather(
    places: Sequence[str],
    query: str | None = None,
    batches: int | None = None,
    price_per_gb: float = PRICE_PER_GB,
) -> QueryFacts:
    """Read all places, which must be of the same query.

    Parameters
    ----------
    places
        A checkpoint's folder, an address of Spark's UI, a file of `metrics.log_file` or of
        `assignor.planLog`; one of each at most.
    query
        Name or id, if a place has several queries.
    batches
        Only the last N.

    Raises
    ------
    OptionError
        For a place that is none of these, a second of a kind, or an unclear query.
    WebError
        For an address that does not answer.
    """
    kinds = sort_places(places)
    origins: list[tuple[str, str]] = []
    log, label = None, None
    if "checkpoint" in kinds:
        log = _keep_last(read_log(kinds["checkpoint"]), batches)
        query_id = log.checkpoint.query_id
        name = f"{log.checkpoint.name}, query {query_id or 'of unknown id'}"
        origins.append(("checkpoint", name))
        query = query or query_id
    elif "plan log" in kinds:
        raise OptionError(f"{kinds['plan log']!r} is a plan log: also give the query's checkpoint")
    progress: Sequence[BatchProgress] = ()
    if "log of metrics" in kinds:
        path = kinds["log of metrics"]
        progress = _read_progress(path, query, batches)
        origins.append(("log of metrics", path))
        _check_same(log, progress[0].query_id, path)
        query, label = progress[0].query_id, progress[-1].label
    ui = None
    if "Spark's UI" in kinds:
        spark = SparkUi(Address.parse(kinds["Spark's UI"]))
        ui, label = _read_ui(spark, query, log, batches)
        origins.append(("Spark's UI", f"{spark.address}, {ui.name}"))
    if "plan log" in kinds:
        origins.append(("plan log", kinds["plan log"]))
    replays, plans = _replay_sources(log, ui, kinds.get("plan log"))
    title = f"Query {label}" if label else f"Query of {log.checkpoint.name if log else ''}"
    return QueryFacts(title, log, progress, ui, replays, plans, origins, price_per_gb)


def _read_ui(
    spark: SparkUi, query: str | None, log: CheckpointLog | None, batches: int | None
) -> tuple[RunFigures, str]:
    """Return the last finished batches of the query in Spark's UI, and the query's label."""
    of_query = choose_query(spark.batches(), query, spark.address)
    _check_same(log, of_query[0].query_id, str(spark.address))
    ended = [batch for batch in of_query if batch.seconds is not None]
    return spark.run(ended[-(batches or _UI_BATCHES) :]), of_query[-1].label


def _replay_sources(
    log: CheckpointLog | None, ui: RunFigures | None, plan_log: str | None
) -> tuple[list[Replay], dict[str, Sequence[LoggedPlan]]]:
    """Replay the last batches of each source; also return the plans of the plan log by source."""
    if log is None:
        return [], {}
    last = {source: _last_replayed(batches) for source, batches in log.sources.items()}
    logged = logged_tasks(Path(plan_log), last) if plan_log is not None else {}
    replays = [
        _replay(log, source, batches, ui, logged.get(source)) for source, batches in last.items()
    ]
    return replays, {source: tasks.plans for source, tasks in logged.items()}


def _check_same(log: CheckpointLog | None, query_id: str, place: str) -> None:
    """Refuse a place of another query: one of the same name may have another checkpoint."""
    known = log.checkpoint.query_id if log else None
    if known and query_id != known:
        raise OptionError(
            f"{place} tells of query {query_id}, the checkpoint is that of {known}: give places "
            "of one query"
        )


def sort_places(places: Sequence[str]) -> dict[str, str]:
    """Return the places by kind: checkpoint, Spark UI, log of metrics, plan log.

    Raises OptionError for a second place of a kind.
    """
    kinds: dict[str, str] = {}
    for place in places:
        if _ADDRESS.match(place) and not Path(place).exists():
            kind = "Spark's UI"
        elif Path(place).is_file():
            kind = "plan log" if is_plan_log(Path(place)) else "log of metrics"
        else:
            kind = "checkpoint"
        if kind in kinds:
            raise OptionError(f"{place!r} is a second {kind}: give one of each kind")
        kinds[kind] = place
    return kinds


def _keep_last(log: CheckpointLog, batches: int | None) -> CheckpointLog:
    last = {source: logged[-(batches or 0) :] for source, logged in log.sources.items()}
    return replace(log, sources=last)


def _last_replayed(batches: Sequence[ReplayBatch]) -> list[ReplayBatch]:
    """Return the last batches up to the limit of replayed ranges, at least one."""
    last: list[ReplayBatch] = []
    ranges = 0
    for batch in reversed(batches):
        ranges += len(batch.ranges)
        if ranges > _REPLAYED_RANGES and last:
            break
        last.insert(0, batch)
    return last


def _replay(
    log: CheckpointLog,
    source: str,
    played: Sequence[ReplayBatch],
    ui: RunFigures | None,
    logged: LoggedTasks | None,
) -> Replay:
    """Replay one source's batches with the costs, and without plans the executors, of the UI."""
    cluster = cluster_for(log, source, played, logged=logged.executors if logged else None)
    origins = {
        name: "assumed: also give the address of Spark's UI" if by.startswith("assumed") else by
        for name, by in cluster.origins.items()
    }
    if ui is not None and ui.batches:
        tasks = list(ui.measured_tasks)
        records = sum(task.records for task in tasks)
        cost_s = sum(task.seconds for task in tasks) / records if records else cluster.cost_s
        factor = cost_s / cluster.cost_s  # the UI has no costs by partition
        unusual = {tp: cost * factor for tp, cost in cluster.unusual.items()}
        cluster = replace(cluster, cost_s=cost_s, unusual=unusual)
        origins["cost"] = "by Spark's UI"
        # A plan is judged on the executors that it had; the UI has those of now.
        if logged is None:
            cluster = replace(cluster, executors=ui.executors or cluster.executors)
            origins["executors"] = "by Spark's UI"
    return replay(
        log.title(source),
        played,
        replace(cluster, origins=origins),
        (SPARK, LAG_AWARE_STICKY),
        logged=logged.tasks if logged else None,
    )


def _read_progress(path: str, query: str | None, last: int | None) -> list[BatchProgress]:
    batches = read_batches(Path(path), last)
    chosen = choose_query_id({p.query_id: p.label for p in batches}, query, f"log {path}")
    return [progress for progress in batches if progress.query_id == chosen]
