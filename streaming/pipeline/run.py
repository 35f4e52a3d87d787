"""Run a job in a session: check everything, then start its queries, and end them together."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import AssignorError
from streaming.metrics.attach import attach
from streaming.observe.progress_log import first_line as line_of_text
from streaming.pipeline.checks import check_brokers, check_offline, check_topics
from streaming.pipeline.failures import JobError, first_line
from streaming.pipeline.hints import with_hint
from streaming.pipeline.loading import LoadedJob, load_job
from streaming.pipeline.lock import holder, lock_checkpoint
from streaming.pipeline.places import absolute, check_places
from streaming.pipeline.queries import plan_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.metrics.attach import Exporter
    from streaming.pipeline.config import Job
    from streaming.pipeline.lock import JobLock
    from streaming.pipeline.queries import Planned

_POLL_S = 0.5


class RunningJob:
    """The started queries of a job, and the outlets of its metrics."""

    def __init__(self, loaded: LoadedJob, lock: JobLock | None = None) -> None:
        self.loaded = loaded
        self.metrics: Exporter | None = None
        self._lock = lock
        self.queries: list[StreamingQuery] = []
        self._planned: list[Planned] = []

    def measure(self, spark: SparkSession) -> None:
        """Open the outlets of the metrics, where the job has some."""
        if self.loaded.job.metrics is not None:
            self.metrics = attach(spark, self.loaded.job.metrics, self.loaded.redact, self._why)

    def start(self, planned: Planned) -> None:
        """Start one more query."""
        self._planned.append(planned)
        try:
            self.queries.append(planned.start())
        except Exception as error:
            raise self._failure(planned, error) from error

    def await_end(self, stop_asked: Callable[[], bool] = lambda: False) -> None:
        """Wait until all queries have ended; the first failure stops the others and is raised.

        Parameters
        ----------
        stop_asked
            Is asked now and then; once it is true, the queries are stopped.

        Raises
        ------
        JobError
            Naming the query and the innermost cause.
        """
        try:
            while self._look() and not stop_asked():
                time.sleep(_POLL_S)
        finally:
            self.stop()

    def is_active(self) -> bool:
        """Whether a query still runs, or none was started yet."""
        return not self.queries or any(query.isActive for query in self.queries)

    def stop(self) -> None:
        """Stop the queries that still run, and close the metrics."""
        for query in self.queries:
            if query.isActive:
                with contextlib.suppress(Exception):
                    query.stop()
        if self.metrics is not None:
            self.metrics.close()
            self.metrics = None
        if self._lock is not None:
            self._lock.release()

    def _look(self) -> bool:
        """Whether any query still runs; raises when one has failed."""
        active = False
        for query, planned in zip(self.queries, self._planned, strict=True):
            if query.isActive:
                active = True
                continue
            error = query.exception()
            if error is not None:
                raise self._failure(planned, error) from None
        return active

    def _why(self, query_id: str, text: str) -> str:
        """Say why a query failed, by what its sink failed with or else by what Spark says."""
        for query, planned in zip(self.queries, self._planned, strict=False):
            error = planned.delta.error if planned.delta is not None else None
            if error is not None and str(query.id) == query_id:
                return first_line(error)
        return line_of_text(text)

    def _failure(self, planned: Planned, error: BaseException) -> JobError:
        told = planned.delta.error if planned.delta is not None else None
        said = with_hint(first_line(told or error), planned.checkpoint)
        return JobError(self.loaded.redact(f"query {planned.name!r} failed: {said}"))


def start_job(
    spark: SparkSession,
    config: str | Path | Mapping[str, Any] | Job | LoadedJob,
    *,
    on_started: Callable[[Sequence[StreamingQuery]], None] | None = None,
) -> RunningJob:
    """Check a job whole, then start its queries; give them back running.

    Parameters
    ----------
    spark
        A session with Delta, Spark's Kafka connector and the bridge.
    config
        A YAML file, a mapping of the same shape, or a job.
    on_started
        Is given the queries once all of them run: where listeners are attached.

    Raises
    ------
    ConfigError
        For what the user must change; nothing was started or written.
    JobError
        For a broker, topic, table or query that fails; what was started is stopped.
    """
    loaded = config if isinstance(config, LoadedJob) else load_job(config)
    try:
        return _started(spark, loaded, on_started)
    except AssignorError as error:
        shown = loaded.redact(str(error))
        if shown == str(error):
            raise
        raise type(error)(shown) from None


def _started(
    spark: SparkSession,
    loaded: LoadedJob,
    on_started: Callable[[Sequence[StreamingQuery]], None] | None,
) -> RunningJob:
    check_offline(loaded)
    check_brokers(loaded)
    check_topics(spark, loaded)
    planned = plan_queries(spark, loaded)
    check_places(spark, loaded)
    for query in planned:
        query.check(spark, loaded)
    lock = _lock(spark, loaded)
    running = RunningJob(loaded, lock)
    if lock is not None:
        lock.is_used = running.is_active
    try:
        running.measure(spark)
        for query in planned:
            query.create_table(spark)
        for query in planned:
            running.start(query)
        if on_started is not None:
            on_started(running.queries)
    except BaseException:
        running.stop()
        raise
    return running


def _lock(spark: SparkSession, loaded: LoadedJob) -> JobLock | None:
    checkpoint = loaded.job.checkpoint
    if checkpoint is None:
        return None
    where = absolute(spark, checkpoint)
    try:
        return lock_checkpoint(where)
    except BlockingIOError:
        said = (
            f"{loaded.title}: checkpoint: process {holder(where)} runs this job in {checkpoint!r}: "
            "wait for its end, or give this run a checkpoint and tables of its own"
        )
        raise JobError(loaded.redact(said)) from None


def run_job(
    spark: SparkSession,
    config: str | Path | Mapping[str, Any] | Job | LoadedJob,
    *,
    on_started: Callable[[Sequence[StreamingQuery]], None] | None = None,
) -> RunningJob:
    """Start a job and wait for its end; see `start_job`."""
    running = start_job(spark, config, on_started=on_started)
    running.await_end()
    return running
