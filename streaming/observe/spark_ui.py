"""What Spark's UI or history server knows of micro-batches, by its REST API: tasks, when and where.

Spark writes a batch's number and its query into the description of each of the batch's jobs. What
the API does not have: offsets, lag, and a query's progress.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from assignor_bridge.errors import OptionError
from streaming.observe.figures import BatchFigures, TaskFigures
from streaming.observe.ui_run import UiBatch, UiExecutor, UiRun
from streaming.observe.web import Address, WebError
from streaming.observe.which_query import one_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MOST_TASKS = 100_000
_NOT_FOUND = 404
#: States of a stage that stay.
_AT_REST = ("COMPLETE", "FAILED", "SKIPPED")
#: Delta puts words before and behind, for what it does within the batch.
_BATCH = re.compile(
    r"^(?:Delta: )*(?:(?P<name>.*)\n)?id = (?P<id>[-\w]+)\nrunId = (?P<run>[-\w]+)\n"
    r"batch = (?P<batch>\d+)\b",
    re.DOTALL,
)
_HISTORY = re.compile(r"/(?:history|applications)/([^/]+)(?:/\d+)?(?:/[^/]*)?$")


@dataclass(slots=True)
class SparkUi:
    """One application behind an address.

    Parameters
    ----------
    address
        Of a driver's UI (`http://localhost:4040`, a proxy's too), or of a history server; there
        with `/history/<application id>` when it has several applications.
    """

    address: Address
    application: str = ""
    name: str = ""
    spark_version: str = ""
    _base: Address = field(init=False)
    #: Tasks of stages that are done: they do not change.
    _done: dict[int, list[Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = _HISTORY.search(self.address.path)
        prefix = self.address.path[: found.start()] if found else self.address.path
        prefix = re.sub(r"(/api/v1)?(/(jobs|stages|executors|SQL|StreamingQuery))?/?$", "", prefix)
        given = self.address
        self._base = Address(
            given.scheme, given.place, f"{prefix}/api/v1/applications", given.authorization
        )
        try:
            applications = self._ask("")
        except WebError as error:
            if error.status == _NOT_FOUND:
                raise OptionError(f"{self.address} is not Spark's UI: {_EXPECTED}") from error
            raise
        if not isinstance(applications, list) or not all("id" in a for a in applications):
            raise OptionError(f"{self.address} is not Spark's UI: {_EXPECTED}")
        chosen = [a for a in applications if found is None or str(a["id"]) == found[1]]
        if len(chosen) != 1:
            ids = ", ".join(str(a["id"]) for a in applications[:5])
            what = f"no application {found[1]}" if found else f"{len(applications)} applications"
            raise OptionError(
                f"{self.address} has {what}: give the address of one, as "
                f"{Address(given.scheme, given.place, prefix)}/history/ID"
                f"{f' (there are {ids})' if ids else ''}"
            )
        self.application, self.name = str(chosen[0]["id"]), str(chosen[0].get("name", ""))
        attempts = chosen[0].get("attempts") or [{}]
        self.spark_version = str(attempts[0].get("appSparkVersion", ""))
        if "attemptId" in attempts[0]:
            self.application += f"/{attempts[0]['attemptId']}"

    def executors(self) -> list[UiExecutor]:
        """Give the executors that are there or were; the driver alone in local mode."""
        found = [_executor(e) for e in self._get("allexecutors")]
        return [e for e in found if e.executor != "driver" and e.slots] or [
            UiExecutor(e.executor, e.host, max(1, e.slots), e.start_s, e.end_s) for e in found
        ]

    def batches(self) -> list[UiBatch]:
        """Give the micro-batches that the UI still has jobs of, the oldest first."""
        jobs: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
        who: dict[str, tuple[str, str | None]] = {}
        for job in self._get("jobs"):
            text = re.sub(r"<br\s*/?>", "\n", str(job.get("description") or ""))
            found = _BATCH.match(html.unescape(text).strip())
            if found:
                who[found["run"]] = found["id"], found["name"] or None
                jobs[found["run"], int(found["batch"])].append(job)
        batches = [
            UiBatch(*who[run], run, batch, *_span(mine),
                    tuple(sorted({int(s) for job in mine for s in job.get("stageIds", ())})))
            for (run, batch), mine in jobs.items()
        ]  # fmt: skip
        return sorted(batches, key=lambda batch: (batch.start_s, batch.batch))

    def run(self, batches: Sequence[UiBatch]) -> UiRun:
        """Give batches with their tasks that read records, done or running."""
        executors = self.executors()
        spark = f"Spark {self.spark_version}" if self.spark_version else "unknown version"
        return UiRun(
            str(self.address),
            f"{self.name} ({self.application}, {spark})",
            tuple(batches),
            tuple(self._figures(batches, executors)),
            tuple(executors),
        )

    def _figures(
        self, batches: Sequence[UiBatch], executors: Iterable[UiExecutor]
    ) -> list[BatchFigures]:
        slots = {e.executor: e.slots for e in executors}
        found = []
        for batch in batches:
            read = _figures([t for stage in batch.stages for t in self._tasks(stage)], slots)
            records = sum(task.records for task in read)
            found.append(BatchFigures(batch.batch, batch.seconds or 0.0, records, read, {}))
        return found

    def _tasks(self, stage: int) -> list[Mapping[str, Any]]:
        """Give the tasks of a stage that reads records; those of one that is done are kept."""
        if stage in self._done:
            return self._done[stage]
        try:
            attempts = list(self._get(f"stages/{stage}?details=false"))
        except WebError as error:
            if error.status != _NOT_FOUND:
                raise
            attempts = []  # the UI has forgotten it
        tasks: list[Mapping[str, Any]] = []
        for attempt in attempts:
            if int(attempt.get("inputRecords") or 0) or attempt.get("status") == "ACTIVE":
                path = f"stages/{stage}/{attempt['attemptId']}/taskList"
                listed = self._get(f"{path}?sortBy=ID&length={_MOST_TASKS}")
                tasks += [t for t in listed if t.get("status") in ("SUCCESS", "RUNNING")]
        if all(attempt.get("status") in _AT_REST for attempt in attempts):
            self._done[stage] = tasks
        return tasks

    def _get(self, path: str) -> Any:
        return self._ask(f"/{quote(self.application)}/{path}")

    def _ask(self, path: str) -> Any:
        try:
            return orjson.loads(self._base.get(path))
        except ValueError as error:
            raise OptionError(f"{self.address} is not Spark's UI: {_EXPECTED}") from error


_EXPECTED = (
    "a running driver has its UI at port 4040 (unless spark.ui.enabled is false), a history "
    "server at 18080"
)


def choose_query(batches: Sequence[UiBatch], wanted: str | None, where: object) -> list[UiBatch]:
    """Give the batches of one query, by its name or id; it may be left out where there is one.

    Raises
    ------
    OptionError
        When there is none, or the choice is not clear.
    """
    labels = {batch.query_id: batch.label for batch in batches}
    if not labels:
        raise OptionError(
            f"{where} shows no streaming query: no job of it is a micro-batch's (yet), or the UI "
            "has forgotten them (spark.ui.retainedJobs)"
        )
    chosen = one_query(labels, wanted, str(where))
    return [batch for batch in batches if batch.query_id == chosen]


def _executor(data: Mapping[str, Any]) -> UiExecutor:
    return UiExecutor(
        str(data["id"]),
        str(data["hostPort"]).rpartition(":")[0],
        int(data.get("maxTasks") or data.get("totalCores") or 0),
        _time_s(data["addTime"]) if data.get("addTime") else 0.0,
        _time_s(data["removeTime"]) if data.get("removeTime") else None,
    )


def _span(jobs: Iterable[Mapping[str, Any]]) -> tuple[float, float | None]:
    jobs = list(jobs)
    starts = [_time_s(job["submissionTime"]) for job in jobs if job.get("submissionTime")]
    ends = [_time_s(job["completionTime"]) for job in jobs if job.get("completionTime")]
    start = min(starts, default=0.0)
    return start, max(ends) - start if len(ends) == len(jobs) else None


def _time_s(text: str) -> float:
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fGMT")
    return moment.replace(tzinfo=timezone.utc).timestamp()


def _figures(
    tasks: Iterable[Mapping[str, Any]], slots: Mapping[str, int]
) -> tuple[TaskFigures, ...]:
    """Name each task's slot: that of its executor that was free first when it began."""
    ordered = sorted(tasks, key=lambda t: (_time_s(t["launchTime"]), int(t["taskId"])))
    first_s = _time_s(ordered[0]["launchTime"]) if ordered else 0.0
    free: dict[str, list[float]] = {}
    found = []
    for task in ordered:
        executor = str(task["executorId"])
        start = _time_s(task["launchTime"]) - first_s
        seconds = float(task.get("duration") or 0) / 1000
        ends = free.setdefault(executor, [0.0] * slots.get(executor, 1))
        slot = ends.index(min(ends))
        ends[slot] = start + seconds
        read = (task.get("taskMetrics") or {}).get("inputMetrics") or {}
        found.append(
            TaskFigures(
                slot=f"{executor}/{slot}",
                start_s=start,
                seconds=seconds,
                records=int(read.get("recordsRead") or 0),
                local=task.get("taskLocality") == "PROCESS_LOCAL",
            )
        )
    return tuple(found)
