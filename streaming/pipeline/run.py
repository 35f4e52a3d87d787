"""Run a job in a session: check everything, then start its queries, and end them together."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import AssignorError
from streaming.metrics.attach import attach, listen
from streaming.observe.progress_log import first_error_line
from streaming.pipeline.brokers import check_network, check_topics
from streaming.pipeline.config.files import load_checked_job
from streaming.pipeline.config.loading import LoadedJob
from streaming.pipeline.delta.continuity import check_continuity
from streaming.pipeline.errors import ConfigError, JobError, JobTimeoutError, first_line, with_hint
from streaming.pipeline.progress import ProgressCounter, sum_up
from streaming.pipeline.queries import plan_queries
from streaming.pipeline.schema_change import check_schema_change, remember_judgements
from streaming.pipeline.spark.folders import absolute, check_writable, holder, lock_checkpoint
from streaming.pipeline.spark.session import NO_CONNECT
from streaming.pipeline.spark.time_zone import record_time_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from typing_extensions import Self

    from streaming.metrics.attach import Exporter
    from streaming.pipeline.config.job import Job
    from streaming.pipeline.progress import JobResult, QueryResult
    from streaming.pipeline.queries import Query
    from streaming.pipeline.spark.folders import JobLock

_LOG = logging.getLogger(__name__)
_POLL_S = 0.5


class RunningJob:
    """The started queries of a job, the outlets of its metrics, and the lock of its checkpoint.

    As a context manager it stops the job at the end of its block.
    """

    def __init__(
        self,
        loaded: LoadedJob,
        queries: Sequence[Query],
        on_progress: Callable[[QueryResult, Any], None] | None = None,
    ) -> None:
        self._loaded = loaded
        self.metrics: Exporter | None = None
        self._queries = queries
        results = [query.result for query in queries]
        self._counter = ProgressCounter(loaded.title, results, on_progress)
        self._started_at = time.monotonic()
        self._seconds: float | None = None
        #: What `stop` does, the last first.
        self._at_end = contextlib.ExitStack()

    @property
    def queries(self) -> list[StreamingQuery]:
        """The queries that were started."""
        return [query.running for query in self._queries if query.running is not None]

    @property
    def result(self) -> JobResult:
        """What the queries have done until now."""
        seconds = self._seconds or time.monotonic() - self._started_at
        return sum_up(self._loaded.job.name, seconds, (query.result for query in self._queries))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _take_lock(self, spark: SparkSession) -> None:
        """Be the only run of the job from now on; raise JobError when another one is."""
        lock = _lock(spark, self._loaded)
        if lock is not None:
            lock.is_used = self.is_active
            self._at_end.callback(lock.release)

    def _start(self, spark: SparkSession) -> None:
        """Open the outlets of the metrics, make the tables, start the queries."""
        loaded = self._loaded
        self._at_end.callback(listen(spark, self._counter))
        if loaded.job.metrics is not None:
            try:
                self.metrics = attach(spark, loaded.job.metrics, loaded.redact, self._why)
            except AssignorError as error:
                error.args = (loaded.redact(str(error)),)
                raise
            self._at_end.callback(self._close_metrics)
        for query in self._queries:
            if query.delta is not None:
                what = f"the table {query.delta.table.where!r} cannot be made: "
                with loaded.at(query.place, JobError, what):
                    query.delta.prepare(spark, query.rows)
        remember_judgements(spark, loaded)
        for query in self._queries:
            self._at_end.callback(query.stop)
            try:
                query.start()
            except Exception as error:
                raise self._failure(query, error) from error

    def await_end(
        self, stop_asked: Callable[[], bool] = lambda: False, timeout: float | None = None
    ) -> None:
        """Wait until all queries have ended, or `stop_asked` returns True; then all are stopped.

        The first failure stops the others and is raised as a JobError, and so is a timeout, in
        seconds, as a JobTimeoutError.
        """
        try:
            with self._loaded.causes_without_secrets():
                self._wait(stop_asked, timeout)
        finally:
            self.stop()

    def _wait(self, stop_asked: Callable[[], bool], timeout: float | None) -> None:
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        try:
            while self._look() and not stop_asked():
                if time.monotonic() > deadline:
                    raise JobTimeoutError(
                        f"{self._loaded.title}: the job was stopped after its timeout of "
                        f"{timeout:g} s; the next run continues from there"
                    )
                time.sleep(_POLL_S)
        except ConnectionError as error:
            raise JobError(f"{self._loaded.title}: {first_line(error)}") from error

    def is_active(self) -> bool:
        """Whether a query still runs, or none was started yet."""
        return not self.queries or any(query.isActive for query in self.queries)

    def stop(self) -> None:
        """Stop the queries that still run, close the metrics, and let others run the job."""
        self._at_end.close()
        self._seconds = self._seconds or time.monotonic() - self._started_at

    def _close_metrics(self) -> None:
        metrics, self.metrics = self.metrics, None
        try:
            if metrics is not None:
                metrics.close()
        except Exception as error:  # noqa: BLE001  (how the job went is told, not this)
            why = self._loaded.redact(first_line(error))
            _LOG.warning(
                "%s: metrics: the last figures may be missing: %s", self._loaded.title, why
            )

    def _look(self) -> bool:
        """Whether any query still runs; raises when one has failed."""
        active = self.is_active()
        for query in self._queries:
            running = query.running
            if running is not None and not running.isActive and (error := running.exception()):
                raise self._failure(query, error) from None
        return active

    def _why(self, query_id: str, text: str) -> str:
        """Say why a query failed, by what its sink failed with or else by what Spark says."""
        for query in self._queries:
            if query.running is not None and str(query.running.id) == query_id and query.sink_error:
                return first_line(query.sink_error)
        return first_error_line(text)

    def _failure(self, query: Query, error: BaseException) -> JobError:
        why = with_hint(first_line(query.sink_error or error), query.checkpoint)
        return JobError(self._loaded.redact(f"query {query.name!r} failed: {why}"))


def start_job(
    spark: SparkSession,
    config: str | Path | Mapping[str, Any] | Job | LoadedJob,
    *,
    on_progress: Callable[[QueryResult, Any], None] | None = None,
) -> RunningJob:
    """Check a job whole, then start its queries; return them running.

    Parameters
    ----------
    spark
        A session with Delta, Spark's Kafka connector and the bridge.
    config
        A YAML file, a mapping of the same shape, or a job; a loaded one was checked before Spark
        was started, as far as that goes.
    on_progress
        Is given the result of a query so far, and Spark's progress, after each batch; on a thread
        of Spark's listeners, so it must return soon.

    Raises
    ------
    ConfigError
        For what the user must change; nothing was started or written.
    JobError
        For a broker, topic, table or query that fails; what was started is stopped.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        raise ConfigError("a SparkSession is expected" if spark is None else NO_CONNECT)
    loaded = load_checked_job(config)
    if not isinstance(config, LoadedJob):
        check_network(loaded)
    with loaded.causes_without_secrets():
        return _check_and_start(spark, loaded, on_progress)


def _check_and_start(
    spark: SparkSession,
    loaded: LoadedJob,
    on_progress: Callable[[QueryResult, Any], None] | None,
) -> RunningJob:
    check_topics(spark, loaded)
    warn_of_late_records(loaded)
    queries = plan_queries(spark, loaded)
    check_writable(spark, loaded)
    running = RunningJob(loaded, queries, on_progress)
    try:
        running._take_lock(spark)
        for query in queries:
            if query.checkpoint is not None:
                with loaded.at(query.place, JobError):
                    check_continuity(spark, query.sources, query.checkpoint, query.delta)
        check_schema_change(spark, loaded, queries)
        with loaded.at("checkpoint", JobError, "the time zone cannot be written: "):
            record_time_zone(spark, loaded.job)
        running._start(spark)
    except BaseException:
        running.stop()
        raise
    return running


def warn_of_late_records(loaded: LoadedJob) -> None:
    """Warn if the options of a source make its watermark drop records that Spark's order keeps."""
    for name, source in loaded.job.all_sources.items():
        if source.watermark is not None and source.lets_event_times_drift_apart:
            _LOG.warning(
                "%s: %s: assignor.fairness, a weight or a floor lets partitions with few records "
                "get ahead in event time, so the watermark drops records of the others as late: "
                "set assignor.alignEventTime to the watermark's delay (%s)",
                loaded.title, loaded.job.place("source", name), source.watermark.delay,
            )  # fmt: skip


def _lock(spark: SparkSession, loaded: LoadedJob) -> JobLock | None:
    checkpoint = loaded.job.checkpoint
    if checkpoint is None:
        return None
    where = absolute(spark, checkpoint)
    try:
        return lock_checkpoint(where)
    except BlockingIOError:
        words = (
            f"process {holder(where)} runs this job in {checkpoint!r}: wait until it ends, or give "
            "this run a checkpoint and tables of its own"
        )
        raise loaded.error("checkpoint", words, JobError) from None


def run_job(
    spark: SparkSession,
    config: str | Path | Mapping[str, Any] | Job | LoadedJob,
    *,
    on_progress: Callable[[QueryResult, Any], None] | None = None,
    timeout: float | None = None,
) -> JobResult:
    """Start a job, wait for its end, and return what it did; see `start_job`.

    After `timeout` seconds the job is stopped, and JobTimeoutError is raised.
    """
    running = start_job(spark, config, on_progress=on_progress)
    running.await_end(timeout=timeout)
    return running.result
