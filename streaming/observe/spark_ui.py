"""Read micro-batches and their tasks from the REST API of Spark's UI or history server.

Spark writes the query and the batch number into the description of each job of the batch. The API
does not have offsets, lag, or a query's progress.
"""

from __future__ import annotations

import functools
import html
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

import orjson

from assignor_bridge.errors import AssignorError, OptionError
from assignor_bridge.model import Executor
from streaming.observe.figures import BatchFigures, RunFigures, TaskFigures
from streaming.observe.web import Address, WebError
from streaming.observe.which_query import choose_query_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    _Method = TypeVar("_Method", bound=Callable[..., Any])

_MAX_TASKS_PER_STAGE = 100_000
_NOT_FOUND = 404
_FINAL_STAGE_STATES = ("COMPLETE", "FAILED", "SKIPPED")
#: Delta adds text before and after the description of its jobs in the batch.
_JOB_DESCRIPTION = re.compile(
    r"^(?:Delta: )*(?:(?P<name>.*)\n)?id = (?P<id>[-\w]+)\nrunId = (?P<run>[-\w]+)\n"
    r"batch = (?P<batch>\d+)\b",
    re.DOTALL,
)
_ADDRESS_HINT = (
    "a running driver has its UI on port 4040 by default (unless spark.ui.enabled is false); a "
    "history server listens on port 18080 by default"
)
#: Maximum number of slots of all executors; a response with more slots is invalid.
_MAX_SLOTS = 100_000
#: Matches the application ID and attempt in the path of a history server's page.
_HISTORY_PATH = re.compile(r"/(?:history|applications)/([^/]+)(?:/(\d+))?(?:/[^/]*)?$")


@dataclass(frozen=True, slots=True)
class UiExecutor:
    """A running or removed executor, or the driver, which runs the tasks in local mode."""

    executor: str
    host: str
    slots: int
    #: Seconds since 1970; 0 if unknown.
    start_s: float
    #: When it was removed, in seconds since 1970; None while it is running.
    end_s: float | None = None

    @property
    def is_running_worker(self) -> bool:
        """Whether it is running and is not the driver."""
        return self.executor != "driver" and self.end_s is None

    def was_running(self, time_s: float) -> bool:
        """Return whether it was running at a time in seconds since 1970."""
        return self.start_s <= time_s and (self.end_s is None or time_s < self.end_s)


@dataclass(frozen=True, slots=True)
class UiBatch:
    """A micro-batch, reconstructed from its jobs."""

    query_id: str
    name: str | None
    batch: int
    #: Seconds since 1970.
    start_s: float
    #: Seconds from the start of the first job to the end of the last job; None while one runs.
    seconds: float | None
    stage_ids: tuple[int, ...]

    @property
    def label(self) -> str:
        """The name of the query, or its ID if it has none."""
        return self.name or self.query_id


def _refuse_other_servers(method: _Method) -> _Method:
    """Wrap a method to raise OptionError if a response does not have the format of Spark's UI."""

    @functools.wraps(method)
    def call_checked(self: SparkUi, *arguments: Any, **keywords: Any) -> Any:
        try:
            return method(self, *arguments, **keywords)
        except AssignorError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise OptionError(f"{self.address} is not Spark's UI: {_ADDRESS_HINT}") from error

    return cast("_Method", call_checked)


class SparkUi:
    """The REST API of one application.

    The address is that of a driver's UI (`http://localhost:4040`, also behind a proxy) or of a
    history server, which needs `/history/<application id>` if it has several applications. Raises
    OptionError unless the address selects one application or attempt, WebError if a request fails.
    """

    @_refuse_other_servers
    def __init__(self, address: Address) -> None:
        self.address = address
        history = _HISTORY_PATH.search(address.path)
        prefix = address.path[: history.start()] if history else address.path
        prefix = re.sub(r"(/api/v1)?(/(jobs|stages|executors|SQL|StreamingQuery))?/?$", "", prefix)
        self._base = replace(address, path=f"{prefix}/api/v1/applications")
        #: Cached tasks of finished stages, which no longer change.
        self._cache: dict[int, list[Mapping[str, Any]]] = {}
        not_a_ui = OptionError(f"{address} is not Spark's UI: {_ADDRESS_HINT}")
        try:
            applications = self._request("")
        except WebError as error:
            if error.status != _NOT_FOUND:
                raise
            raise not_a_ui from error
        if not isinstance(applications, list) or not all("id" in a for a in applications):
            raise not_a_ui
        if not applications:
            raise OptionError(
                f"{address} lists no applications: start the query with "
                "spark.eventLog.enabled=true and the history server's log folder as "
                "spark.eventLog.dir"
            )
        candidates = [a for a in applications if history is None or str(a["id"]) == history[1]]
        if len(candidates) != 1:
            ids = ", ".join(str(a["id"]) for a in applications[:5])
            count = len(applications)
            problem = f"no application {history[1]}" if history else f"{count} applications"
            raise OptionError(
                f"{address} has {problem}: give the address of one application, such as "
                f"{replace(address, path=prefix)}/history/ID (IDs: {ids})"
            )
        application = candidates[0]
        self.application_path, self.name = str(application["id"]), str(application.get("name", ""))
        attempts = application.get("attempts") or [{}]
        attempt_id = history[2] if history else None
        matches = [a for a in attempts if attempt_id in (None, str(a.get("attemptId", "1")))]
        if not matches:
            raise OptionError(
                f"{address}: the application has no attempt {attempt_id}: omit it for the last one"
            )
        attempt = matches[0]  # the newest comes first
        self.spark_version = str(attempt.get("appSparkVersion", ""))
        if "attemptId" in attempt:
            self.application_path += f"/{attempt['attemptId']}"

    @_refuse_other_servers
    def fetch_executors(self) -> list[UiExecutor]:
        """Return all executors with slots, also removed ones; if there are none, the driver."""
        executors = [_parse_executor(e) for e in self._get("allexecutors")]
        if sum(e.slots for e in executors) > _MAX_SLOTS:
            raise ValueError(f"more than {_MAX_SLOTS:,} slots")
        workers = [e for e in executors if e.executor != "driver" and e.slots]
        return workers or [replace(e, slots=max(1, e.slots)) for e in executors]

    @_refuse_other_servers
    def fetch_batches(self) -> list[UiBatch]:
        """Return the micro-batches whose jobs the UI still has, oldest first."""
        jobs_by_batch: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        query_by_run: dict[str, tuple[str, str | None]] = {}
        for job in self._get("jobs"):
            text = re.sub(r"<br\s*/?>", "\n", str(job.get("description") or ""))
            match = _JOB_DESCRIPTION.match(html.unescape(text).strip())
            if match:
                query_by_run[match["run"]] = match["id"], match["name"] or None
                jobs_by_batch[match["run"], match["batch"]].append(job)
        batches = []
        for (run, number), batch_jobs in jobs_by_batch.items():
            stage_ids = sorted({int(id_) for job in batch_jobs for id_ in job.get("stageIds", ())})
            span = _parse_span(batch_jobs)
            batches.append(UiBatch(*query_by_run[run], int(number), *span, tuple(stage_ids)))
        return sorted(batches, key=lambda batch: (batch.start_s, batch.batch))

    @_refuse_other_servers
    def fetch_run(
        self, batches: Sequence[UiBatch], records_by_batch: Mapping[int, int] | None = None
    ) -> RunFigures:
        """Return the figures of batches, from their stages that read records or are running.

        Tasks of finished stages are cached until a call omits their batch. With `records_by_batch`,
        only the first stage that read exactly the batch's records is used: others read tables.
        """
        executors = sorted(self.fetch_executors(), key=lambda e: (len(e.executor), e.executor))
        slot_count_by_executor = {e.executor: e.slots for e in executors}
        slot_names = {e: tuple(f"{e.executor}/{n}" for n in range(e.slots)) for e in executors}
        running_executors: tuple[UiExecutor, ...] = ()
        names_by_executors: dict[tuple[UiExecutor, ...], tuple[str, ...]] = {}
        figures = []
        for batch in batches:
            stages = [self._fetch_tasks(stage_id) for stage_id in batch.stage_ids]
            if records_by_batch is not None:
                total = records_by_batch[batch.batch]
                stages = [tasks for tasks in stages if sum(map(_count_records, tasks)) == total][:1]
            task_data = [task for tasks in stages for task in tasks]
            tasks = _place_tasks(task_data, slot_count_by_executor)
            key = running_executors = tuple(e for e in executors if e.was_running(batch.start_s))
            if key not in names_by_executors:  # most batches have the same executors
                names_by_executors[key] = tuple(slot for e in key for slot in slot_names[e])
            seconds, records = batch.seconds or 0.0, sum(task.records for task in tasks)
            figure = BatchFigures(batch.batch, seconds, records, tasks, names_by_executors[key])
            figures.append(replace(figure, is_running=batch.seconds is None))
        stage_ids = {stage_id for batch in batches for stage_id in batch.stage_ids}
        self._cache = {id_: tasks for id_, tasks in self._cache.items() if id_ in stage_ids}
        version_text = f"Spark {self.spark_version}" if self.spark_version else "unknown version"
        title = f"{self.name} ({self.application_path}, {version_text})"
        last_executors = tuple(Executor(e.executor, e.host, e.slots) for e in running_executors)
        return RunFigures(title, tuple(figures), executors=last_executors)

    def _fetch_tasks(self, stage_id: int) -> list[Mapping[str, Any]]:
        """Return a stage's running and successful tasks if it may read records; else none."""
        if stage_id in self._cache:
            return self._cache[stage_id]
        try:
            attempts = list(self._get(f"stages/{stage_id}?details=false"))
        except WebError as error:
            if error.status != _NOT_FOUND:
                raise
            attempts = []  # the UI no longer has the stage
        tasks: list[Mapping[str, Any]] = []
        for attempt in attempts:
            if int(attempt.get("inputRecords") or 0) or attempt.get("status") == "ACTIVE":
                path = f"stages/{stage_id}/{attempt['attemptId']}/taskList"
                task_list = self._get(f"{path}?sortBy=ID&length={_MAX_TASKS_PER_STAGE}")
                tasks += [t for t in task_list if t.get("status") in ("SUCCESS", "RUNNING")]
        if all(attempt.get("status") in _FINAL_STAGE_STATES for attempt in attempts):
            self._cache[stage_id] = tasks
        return tasks

    def _get(self, path: str) -> Any:
        return self._request(f"/{quote(self.application_path)}/{path}")

    def _request(self, path: str) -> Any:
        try:
            return orjson.loads(self._base.get(path))
        except ValueError as error:
            raise OptionError(f"{self.address} is not Spark's UI: {_ADDRESS_HINT}") from error


def choose_query(batches: Sequence[UiBatch], query: str | None, location: object) -> list[UiBatch]:
    """Return the batches of one query, or raise OptionError, as `choose_query_id` does."""
    label_by_id = {batch.query_id: batch.label for batch in batches}
    if not label_by_id:
        raise OptionError(
            f"{location} shows no streaming query: no micro-batch has run yet, or the UI no longer "
            "has its jobs (raise spark.ui.retainedJobs)"
        )
    query_id = choose_query_id(label_by_id, query, str(location))
    return [batch for batch in batches if batch.query_id == query_id]


def _parse_executor(data: Mapping[str, Any]) -> UiExecutor:
    return UiExecutor(
        str(data["id"]),
        str(data["hostPort"]).rpartition(":")[0],
        int(data.get("maxTasks") or data.get("totalCores") or 0),
        _parse_time_s(data["addTime"]) if data.get("addTime") else 0.0,
        _parse_time_s(data["removeTime"]) if data.get("removeTime") else None,
    )


def _parse_span(jobs: Sequence[Mapping[str, Any]]) -> tuple[float, float | None]:
    """Return the jobs' start and duration in seconds; the duration is None while a job runs."""
    starts = [_parse_time_s(job["submissionTime"]) for job in jobs if job.get("submissionTime")]
    ends = [_parse_time_s(job["completionTime"]) for job in jobs if job.get("completionTime")]
    start_s = min(starts, default=0.0)
    return start_s, max(ends) - start_s if len(ends) == len(jobs) else None


def _parse_time_s(text: str) -> float:
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fGMT")
    return moment.replace(tzinfo=timezone.utc).timestamp()


def _place_tasks(
    tasks: Iterable[Mapping[str, Any]], slot_count_by_executor: Mapping[str, int]
) -> tuple[TaskFigures, ...]:
    """Assign each task to the slot of its executor that became free first."""
    ordered_tasks = sorted(tasks, key=lambda t: (_parse_time_s(t["launchTime"]), int(t["taskId"])))
    first_s = _parse_time_s(ordered_tasks[0]["launchTime"]) if ordered_tasks else 0.0
    free_at_s_by_executor: dict[str, list[float]] = {}
    figures = []
    for task in ordered_tasks:
        executor = str(task["executorId"])
        start_s = _parse_time_s(task["launchTime"]) - first_s
        seconds = float(task.get("duration") or 0) / 1000
        slot_count = slot_count_by_executor.get(executor, 1)
        slots_free_at_s = free_at_s_by_executor.setdefault(executor, [0.0] * slot_count)
        slot = slots_free_at_s.index(min(slots_free_at_s))
        slots_free_at_s[slot] = start_s + seconds
        slot_name, records = f"{executor}/{slot}", _count_records(task)
        is_local = task.get("taskLocality") == "PROCESS_LOCAL"
        figures.append(TaskFigures(slot_name, start_s, seconds, records, local=is_local))
    return tuple(figures)


def _count_records(task: Mapping[str, Any]) -> int:
    input_metrics = (task.get("taskMetrics") or {}).get("inputMetrics") or {}
    return int(input_metrics.get("recordsRead") or 0)
