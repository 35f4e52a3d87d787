"""Collect the facts about one query from its checkpoint, Spark's UI, and its logs.

The checkpoint has the offsets read and the planner's state. The UI has the executor and time of
each task, the metrics log has the lag and the planner's metrics, and the plan log has all plans.
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
from streaming.replay.cluster import choose_cluster
from streaming.replay.log import CheckpointLog, read_checkpoint_log
from streaming.replay.plan_log import is_plan_log, read_tasks
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

#: Default number of latest batches whose tasks are requested from Spark's UI.
_DEFAULT_UI_BATCHES = 20
#: Maximum number of ranges that are replayed; earlier batches are skipped.
_MAX_REPLAYED_RANGES = 15_000
#: Kinds of input; a report takes at most one of each.
KINDS = ("checkpoint", "metrics log", "plan log", "Spark's UI")
_ADDRESS = re.compile(r"https?://|[\w.-]+:\d+(/|$)")


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """The data that a report is made from; a field is empty or None if no input has it."""

    title: str
    checkpoint_log: CheckpointLog | None = None
    #: Progress of the batches with data, in order.
    progress: Sequence[BatchProgress] = ()
    ui_run: RunFigures | None = None  # from Spark's UI
    #: One replay for each Kafka source of the checkpoint.
    replays: Sequence[Replay] = ()
    #: Plans from the plan log by source, in order.
    plans: Mapping[str, Sequence[LoggedPlan]] = field(default_factory=dict)
    #: Kind and name of each input.
    origins: Sequence[tuple[str, str]] = field(default_factory=list)
    price_per_gb: float = PRICE_PER_GB


def gather_facts(
    inputs: Sequence[str],
    query: str | None = None,
    batches: int | None = None,
    price_per_gb: float = PRICE_PER_GB,
) -> QueryFacts:
    """Read all inputs, which must belong to the same query.

    `inputs` are a checkpoint folder, an address of Spark's UI, a metrics log (`metrics.log_file`),
    and a plan log (`assignor.planLog`); at most one of each kind. `query` is a name or ID, required
    if an input has several queries. `batches` is the number of last batches to read; None for 20
    from Spark's UI and all from other inputs.

    Raises OptionError if an input is invalid, two are of one kind, or they do not share one query;
    DamagedCheckpointError if a checkpoint's file cannot be read; and WebError if a request fails.
    """
    input_by_kind = classify_inputs(inputs)
    origins: list[tuple[str, str]] = []
    checkpoint_log, label = None, None
    if "checkpoint" in input_by_kind:
        checkpoint_log = _keep_last(read_checkpoint_log(input_by_kind["checkpoint"]), batches)
        query_id = checkpoint_log.checkpoint.query_id
        name = f"{checkpoint_log.checkpoint.name}, query {query_id or 'with unknown ID'}"
        origins.append(("checkpoint", name))
        query = query or query_id
    elif "plan log" in input_by_kind:
        path = input_by_kind["plan log"]
        raise OptionError(f"{path!r} is a plan log: also give the query's checkpoint")
    progress: Sequence[BatchProgress] = ()
    if "metrics log" in input_by_kind:
        path = input_by_kind["metrics log"]
        progress = _read_progress(path, query, batches)
        origins.append(("metrics log", path))
        _check_same_query(checkpoint_log, progress[0].query_id, path)
        query, label = progress[0].query_id, progress[-1].label
    run = None
    if "Spark's UI" in input_by_kind:
        ui = SparkUi(Address.parse(input_by_kind["Spark's UI"]))
        run, label = _fetch_run(ui, query, checkpoint_log, batches)
        origins.append(("Spark's UI", f"{ui.address}, {run.name}"))
    if "plan log" in input_by_kind:
        origins.append(("plan log", input_by_kind["plan log"]))
    replays, plans = _replay_sources(checkpoint_log, run, input_by_kind.get("plan log"))
    checkpoint_name = checkpoint_log.checkpoint.name if checkpoint_log else ""
    title = f"Query {label or f'of {checkpoint_name}'}"
    return QueryFacts(title, checkpoint_log, progress, run, replays, plans, origins, price_per_gb)


def _fetch_run(
    ui: SparkUi, query: str | None, checkpoint_log: CheckpointLog | None, max_batches: int | None
) -> tuple[RunFigures, str]:
    """Return the figures of the query's last finished batches in Spark's UI, and its label."""
    query_batches = choose_query(ui.fetch_batches(), query, ui.address)
    _check_same_query(checkpoint_log, query_batches[0].query_id, str(ui.address))
    finished_batches = [batch for batch in query_batches if batch.seconds is not None]
    last_batches = finished_batches[-(max_batches or _DEFAULT_UI_BATCHES) :]
    return ui.fetch_run(last_batches), query_batches[-1].label


def _replay_sources(
    checkpoint_log: CheckpointLog | None, ui_run: RunFigures | None, plan_log: str | None
) -> tuple[list[Replay], dict[str, Sequence[LoggedPlan]]]:
    """Replay the last batches of each source; also return the logged plans by source."""
    if checkpoint_log is None:
        return [], {}
    sources = checkpoint_log.batches_by_source.items()
    last_batches = {source: _limit_ranges(batches) for source, batches in sources}
    tasks_by_source = read_tasks(Path(plan_log), last_batches) if plan_log is not None else {}
    replays = [
        _replay(checkpoint_log, source, batches, ui_run, tasks_by_source.get(source))
        for source, batches in last_batches.items()
    ]
    return replays, {source: tasks.plans for source, tasks in tasks_by_source.items()}


def _check_same_query(checkpoint_log: CheckpointLog | None, query_id: str, location: str) -> None:
    """Raise OptionError if an input's query is not the checkpoint's, even if they share a name."""
    checkpoint_id = checkpoint_log.checkpoint.query_id if checkpoint_log else None
    if checkpoint_id and query_id != checkpoint_id:
        raise OptionError(
            f"{location} belongs to query {query_id}, but the checkpoint belongs to query "
            f"{checkpoint_id}: give inputs of one query"
        )


def classify_inputs(inputs: Sequence[str]) -> dict[str, str]:
    """Return the inputs by kind (of `KINDS`); raise OptionError if there are two of a kind."""
    input_by_kind: dict[str, str] = {}
    for location in inputs:
        if _ADDRESS.match(location) and not Path(location).exists():
            kind = "Spark's UI"
        elif Path(location).is_file():
            kind = "plan log" if is_plan_log(Path(location)) else "metrics log"
        else:
            kind = "checkpoint"
        if kind in input_by_kind:
            raise OptionError(f"{location!r} is a second input of kind {kind!r}: give one of each")
        input_by_kind[kind] = location
    return input_by_kind


def _keep_last(checkpoint_log: CheckpointLog, max_batches: int | None) -> CheckpointLog:
    """Return the log with each source's last batches; None keeps all."""
    sources = checkpoint_log.batches_by_source.items()
    last_batches = {source: batches[-(max_batches or 0) :] for source, batches in sources}
    return replace(checkpoint_log, batches_by_source=last_batches)


def _limit_ranges(batches: Sequence[ReplayBatch]) -> list[ReplayBatch]:
    """Return the last batches with up to `_MAX_REPLAYED_RANGES` ranges, but at least one batch."""
    last_batches: list[ReplayBatch] = []
    range_count = 0
    for batch in reversed(batches):
        range_count += len(batch.ranges)
        if range_count > _MAX_REPLAYED_RANGES and last_batches:
            break
        last_batches.insert(0, batch)
    return last_batches


def _replay(
    checkpoint_log: CheckpointLog,
    source: str,
    batches: Sequence[ReplayBatch],
    ui_run: RunFigures | None,
    plan_log: LoggedTasks | None,
) -> Replay:
    """Replay one source with costs from the UI, if any, and executors from the plan log or UI."""
    executors = plan_log.executors_by_batch if plan_log else None
    cluster = choose_cluster(checkpoint_log, source, batches, logged_executors=executors)
    origins = {
        name: "assumed: also give the address of Spark's UI" if text.startswith("assumed") else text
        for name, text in cluster.origins.items()
    }
    if ui_run is not None and ui_run.batches:
        tasks = list(ui_run.measured_tasks)
        records = sum(task.records for task in tasks)
        cost_s = sum(task.seconds for task in tasks) / records if records else cluster.cost_s
        factor = cost_s / cluster.cost_s  # the UI has no costs per partition
        unusual_costs = {tp: cost * factor for tp, cost in cluster.unusual_costs.items()}
        cluster = replace(cluster, cost_s=cost_s, unusual_costs=unusual_costs)
        origins |= {"cost": "from Spark's UI"} if records else {}
        # Logged plans are replayed on the executors of their batch; the UI has the current ones.
        if plan_log is None and ui_run.executors:
            cluster = replace(cluster, executors=ui_run.executors)
            origins["executors"] = "from Spark's UI"
    cluster, names = replace(cluster, origins=origins), (SPARK, LAG_AWARE_STICKY)
    title = checkpoint_log.name_source(source)
    logged_tasks = plan_log.tasks_by_batch if plan_log else None
    return replay(title, batches, cluster, names, logged_tasks=logged_tasks)


def _read_progress(path: str, query: str | None, max_batches: int | None) -> list[BatchProgress]:
    batches = read_batches(Path(path), max_batches)
    query_id = choose_query_id({p.query_id: p.label for p in batches}, query, f"log {path}")
    return [progress for progress in batches if progress.query_id == query_id]
