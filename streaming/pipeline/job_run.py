"""Run a job in a session: check it completely, start its queries, and stop them together."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import AssignorError
from streaming.metrics.attach import attach, listen
from streaming.observe.progress_log import find_error_line
from streaming.pipeline import job_errors
from streaming.pipeline.broker_checks import check_network, check_topics
from streaming.pipeline.config.loading import LoadedJob
from streaming.pipeline.config.referenced_files import load_checked_job
from streaming.pipeline.delta.continuity import check_continuity
from streaming.pipeline.job_errors import (
    ConfigError,
    JobError,
    JobTimeoutError,
    add_hint,
    summarize,
)
from streaming.pipeline.queries import plan_queries
from streaming.pipeline.row_counts import ProgressCounter, sum_results
from streaming.pipeline.schema_change import check_schema_change, save_parsing_rules
from streaming.pipeline.spark.job_folders import (
    check_writable,
    find_owner,
    lock_folder,
    qualify_path,
)
from streaming.pipeline.spark.job_session import NO_CONNECT
from streaming.pipeline.spark.time_zone import record_time_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from typing_extensions import Self

    from streaming.metrics.attach import Exporter
    from streaming.pipeline.config.job import Job
    from streaming.pipeline.queries import JobQuery
    from streaming.pipeline.row_counts import JobResult, QueryResult
    from streaming.pipeline.spark.job_folders import JobLock

_LOG = logging.getLogger(__name__)
_POLL_S = 0.5


class RunningJob:
    """A job's running queries, metrics exporter, and checkpoint lock.

    As a context manager, it stops the job at the end of the block.
    """

    def __init__(
        self,
        loaded_job: LoadedJob,
        queries: Sequence[JobQuery],
        on_progress: Callable[[QueryResult, Any], None] | None = None,
    ) -> None:
        self._loaded_job = loaded_job
        self.metrics: Exporter | None = None
        self._queries = queries
        results = [query.result for query in queries]
        self._counter = ProgressCounter(loaded_job.title, results, on_progress)
        self._started_at = time.monotonic()
        #: Time from the start to `stop`; None until then.
        self._duration_s: float | None = None
        #: Callbacks that `stop` runs, last one first.
        self._exit_stack = contextlib.ExitStack()

    @property
    def queries(self) -> list[StreamingQuery]:
        """The started queries."""
        return [query.stream for query in self._queries if query.stream is not None]

    @property
    def result(self) -> JobResult:
        """The job's result so far."""
        seconds = self._duration_s or time.monotonic() - self._started_at
        results = (query.result for query in self._queries)
        return sum_results(self._loaded_job.job.name, seconds, results)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _take_lock(self, spark: SparkSession) -> None:
        """Lock the job's checkpoint; raise JobError if another run has the lock."""
        lock = _lock_job(spark, self._loaded_job)
        if lock is not None:
            lock.is_in_use = self.is_active
            self._exit_stack.callback(lock.release)

    def _start(self, spark: SparkSession) -> None:
        """Start the metrics, create the tables, save the parsing rules, and start the queries."""
        loaded_job = self._loaded_job
        self._exit_stack.callback(listen(spark, self._counter))
        metrics_config = loaded_job.job.metrics
        if metrics_config is not None:
            try:
                self.metrics = attach(spark, metrics_config, loaded_job.redact, self._explain)
            except AssignorError as error:
                error.args = (loaded_job.redact(str(error)),)
                raise
            self._exit_stack.callback(self._close_metrics)
        for query in self._queries:
            if query.delta_writer is not None:
                prefix = f"the table {query.delta_writer.table.title!r} cannot be created: "
                with loaded_job.wrap_errors(query.key_path, JobError, prefix):
                    query.delta_writer.prepare(spark, query.rows)
        save_parsing_rules(spark, loaded_job)
        for query in self._queries:
            self._exit_stack.callback(query.stop)
            try:
                query.start()
            except Exception as error:
                raise self._make_error(query, error) from error

    def await_end(
        self, should_stop: Callable[[], bool] = lambda: False, timeout: float | None = None
    ) -> None:
        """Wait until all queries have ended, or `should_stop` returns True; then stop all of them.

        If a query fails, the others are stopped, and JobError is raised. After `timeout` seconds,
        the job is stopped, and JobTimeoutError is raised.
        """
        try:
            with self._loaded_job.drop_secret_causes():
                self._wait(should_stop, timeout)
        finally:
            self.stop()

    def _wait(self, should_stop: Callable[[], bool], timeout: float | None) -> None:
        deadline_s = time.monotonic() + (math.inf if timeout is None else timeout)
        try:
            while self._check_queries() and not should_stop():
                if time.monotonic() > deadline_s:
                    raise JobTimeoutError(
                        f"{self._loaded_job.title}: the job was stopped after its timeout of "
                        f"{timeout:g} s; the next run continues from the checkpoint, if any"
                    )
                time.sleep(_POLL_S)
        except ConnectionError as error:
            raise JobError(f"{self._loaded_job.title}: {summarize(error)}") from error

    def is_active(self) -> bool:
        """Return whether a query is running, or none has been started yet."""
        return not self.queries or any(query.isActive for query in self.queries)

    def stop(self) -> None:
        """Stop the running queries, close the metrics exporter, and release the job's lock."""
        self._exit_stack.close()
        self._duration_s = self._duration_s or time.monotonic() - self._started_at

    def _close_metrics(self) -> None:
        """Close the exporter; only log its failure, so that the job's own error is raised."""
        metrics, self.metrics = self.metrics, None
        message = "%s: metrics: the last values may be missing: %s"
        log_warning = partial(_LOG.warning, message, self._loaded_job.title)
        with job_errors.report_failure(log_warning, self._loaded_job.redact):
            if metrics is not None:
                metrics.close()

    def _check_queries(self) -> bool:
        """Return whether any query is running; raise JobError if one has failed."""
        is_active = self.is_active()
        for query in self._queries:
            stream = query.stream
            if stream is not None and not stream.isActive and (error := stream.exception()):
                raise self._make_error(query, error) from None
        return is_active

    def _explain(self, query_id: str, text: str) -> str:
        """Return why a query failed: its sink's error, or else the error line of Spark's text."""
        for query in self._queries:
            if query.stream is not None and str(query.stream.id) == query_id and query.sink_error:
                return summarize(query.sink_error)
        return find_error_line(text)

    def _make_error(self, query: JobQuery, error: BaseException) -> JobError:
        reason = add_hint(summarize(query.sink_error or error), query.checkpoint)
        return JobError(self._loaded_job.redact(f"query {query.name!r} failed: {reason}"))


def start_job(
    spark: SparkSession,
    config: str | Path | Mapping[str, Any] | Job | LoadedJob,
    *,
    on_progress: Callable[[QueryResult, Any], None] | None = None,
) -> RunningJob:
    """Check a job completely, start its queries, and return the running job.

    Parameters
    ----------
    spark
        A session with Delta, Spark's Kafka connector and the bridge.
    config
        A YAML file, a mapping with the same keys, or a job. For a `LoadedJob`, only the checks that
        need Spark run, because the others have run before.
    on_progress
        Called after each batch that has records, with its query's result so far, and Spark's
        progress. It must return quickly, because it runs on Spark's listener thread.

    Raises
    ------
    ConfigError
        If the config is invalid; nothing was started or written.
    JobError, MetricsError
        If Kafka, a table, a query, or metrics fail, or another run is active; queries are stopped.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        raise ConfigError("a SparkSession is expected" if spark is None else NO_CONNECT)
    loaded_job = load_checked_job(config)
    if not isinstance(config, LoadedJob):
        check_network(loaded_job)
    with loaded_job.drop_secret_causes():
        return _check_and_start(spark, loaded_job, on_progress)


def _check_and_start(
    spark: SparkSession,
    loaded_job: LoadedJob,
    on_progress: Callable[[QueryResult, Any], None] | None,
) -> RunningJob:
    check_topics(spark, loaded_job)
    warn_about_late_records(loaded_job)
    queries = plan_queries(spark, loaded_job)
    check_writable(spark, loaded_job)
    running_job = RunningJob(loaded_job, queries, on_progress)
    try:
        running_job._take_lock(spark)
        for query in queries:
            if query.checkpoint is not None:
                with loaded_job.wrap_errors(query.key_path, JobError):
                    check_continuity(spark, query.sources, query.checkpoint, query.delta_writer)
        check_schema_change(spark, loaded_job, queries)
        with loaded_job.wrap_errors("checkpoint", JobError, "the time zone cannot be written: "):
            record_time_zone(spark, loaded_job.job)
        running_job._start(spark)
    except BaseException:
        running_job.stop()
        raise
    return running_job


def warn_about_late_records(loaded_job: LoadedJob) -> None:
    """Warn if a source's options can make its watermark drop records as late."""
    for name, source in loaded_job.job.all_sources.items():
        if source.watermark is not None and source.lets_event_times_drift_apart:
            message = (
                "%s: %s: with assignor.fairness, a weight or a floor, some partitions can get "
                "ahead of others in event time, and the watermark then drops the others' records "
                "as late: set assignor.alignEventTime to the watermark's delay (%s)"
            )
            key_path = loaded_job.job.locate("source", name)
            _LOG.warning(message, loaded_job.title, key_path, source.watermark.delay)


def _lock_job(spark: SparkSession, loaded_job: LoadedJob) -> JobLock | None:
    checkpoint = loaded_job.job.checkpoint
    if checkpoint is None:
        return None
    folder = qualify_path(spark, checkpoint)
    try:
        return lock_folder(folder)
    except BlockingIOError:
        problem = (
            f"another run (process {find_owner(folder)}) uses checkpoint {checkpoint!r}: wait "
            "until it ends, or use another checkpoint and other tables"
        )
        raise loaded_job.make_error("checkpoint", problem, JobError) from None


def run_job(
    spark: SparkSession,
    config: str | Path | Mapping[str, Any] | Job | LoadedJob,
    *,
    on_progress: Callable[[QueryResult, Any], None] | None = None,
    timeout: float | None = None,
) -> JobResult:
    """Start a job, wait for its end, and return its result; see `start_job`.

    After `timeout` seconds the job is stopped, and JobTimeoutError is raised.
    """
    running_job = start_job(spark, config, on_progress=on_progress)
    running_job.await_end(timeout=timeout)
    return running_job.result
