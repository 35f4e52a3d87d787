"""Attach metrics exporters and the JSON log to a session: `with attach(spark, config): …`."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

import orjson
from py4j.protocol import Py4JError
from pyspark.sql.streaming.listener import StreamingQueryListener

from streaming.metrics.board import Board
from streaming.metrics.log_ends import request_log_ends
from streaming.metrics.outlets import Endpoint, Log, Textfile
from streaming.observe.progress_log import (
    find_error_line,
    make_batch_line,
    make_end_line,
    redact_progress,
)
from streaming.observe.query_progress import parse_progress, parse_time_s
from streaming.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from streaming.metrics.config import MetricsConfig
    from streaming.metrics.log_ends import QueryOffsets, TopicOffsets

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 10.0
_LAG_INTERVAL_S = 5.0


class Exporter:
    """Export the events of queries to the configured endpoint, textfile, and log.

    A separate thread handles the queued events, so that a full disk or a scrape of 10,000
    partitions cannot delay Spark. Only the first failure is logged, as a warning. `fetch_log_ends`
    is called with a query's ID, or None for all queries; `attach` explains the other parameters.
    """

    def __init__(
        self,
        config: MetricsConfig,
        redact: Callable[[str], str] | None = None,
        why: Callable[[str, str], str] | None = None,
        fetch_log_ends: Callable[[str | None], QueryOffsets] = lambda _: {},
    ) -> None:
        self._fetch_log_ends = fetch_log_ends
        self._redact = redact or Redactor()
        self._why = why or (lambda _, text: find_error_line(text))
        self._board = Board(config.cluster_name)
        path, file_mode = config.textfile, config.file_mode
        self._textfile = Textfile(self._board, path, file_mode) if path else None
        self._log: Log | None = None
        self._endpoint: Endpoint | None = None
        with contextlib.ExitStack() as outlets:
            if config.log is not None or config.log_file is not None:
                self._log = Log(config.log_file, file_mode)
                outlets.callback(self._log.close)
            if config.port is not None:
                self._endpoint = Endpoint(self._board, config.port, config.address)
                outlets.callback(self._endpoint.close)
            #: Callbacks of `close`, run in reverse order.
            self.at_close = outlets.pop_all()
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._has_warned = False
        self._next_measurement_s = 0.0
        thread = threading.Thread(target=self._run_events, name="assignor-metrics", daemon=True)
        thread.start()
        self.at_close.callback(thread.join, _CLOSE_TIMEOUT_S)
        self.at_close.callback(self._events.put, None)

    @property
    def port(self) -> int | None:
        """Port of the endpoint; None if there is no endpoint."""
        return self._endpoint.port if self._endpoint else None

    def record_progress(self, progress_json: str) -> None:
        """Queue a progress event in Spark's JSON format; return at once."""
        self._events.put(lambda: self._write_progress(progress_json))

    def record_idle(self, query_id: str, timestamp: str) -> None:
        """Queue an event for a query that waits for records; return at once."""
        self._events.put(lambda: self._write_idle(query_id, timestamp))

    def record_end(self, query_id: str, run_id: str, error: str | None) -> None:
        """Queue an event for a query that has ended; return at once."""
        self._events.put(lambda: self._write_end(query_id, run_id, error))

    def close(self) -> None:
        """Stop listening, handle the queued events for at most 10 s, then close all outlets."""
        self.at_close.close()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run_events(self) -> None:
        while (event := self._wait_for_event()) is not None:
            with self._warn_once():
                event()

    def _wait_for_event(self) -> Callable[[], None] | None:
        """Return the next event, or `_measure_lag` if it is due first; None ends the thread."""
        remaining_s = self._next_measurement_s - time.monotonic()
        if remaining_s > 0:
            with contextlib.suppress(queue.Empty):
                return self._events.get(timeout=remaining_s)
        self._next_measurement_s = time.monotonic() + _LAG_INTERVAL_S
        return self._measure_lag

    def _measure_lag(self) -> None:
        if self._board.is_empty:
            return
        if self._board.update_log_ends(self._fetch_log_ends(None), time.time()) and self._textfile:
            self._textfile.write()

    def _write_progress(self, progress_json: str) -> None:
        data = redact_progress(orjson.loads(progress_json), self._redact)
        log_ends: Mapping[str, TopicOffsets] = {}
        with self._warn_once():
            log_ends = self._fetch_log_ends(data["id"]).get(data["id"], {})
        for index, source in enumerate(data["sources"]):
            if str(index) in log_ends:
                source["logEndOffset"] = log_ends[str(index)]
        progress = parse_progress(data)
        is_new = self._board.update(progress, time.time())
        if self._log and is_new:
            lag_seconds = self._board.compute_max_lag_seconds(progress.query_id)
            with self._warn_once():  # still write the textfile, maybe on another disk
                self._log.write(make_batch_line(progress, lag_seconds), data)
        if self._textfile:
            self._textfile.write()

    def _write_idle(self, query_id: str, timestamp: str) -> None:
        if self._board.mark_idle(query_id, parse_time_s(timestamp)) and self._textfile:
            self._textfile.write()

    def _write_end(self, query_id: str, run_id: str, error: str | None) -> None:
        has_others = self._board.remove(query_id)
        if self._log:
            reason = self._redact(self._why(query_id, error)) if error else None
            with self._warn_once():
                self._log.write(make_end_line(query_id, run_id, reason))
        if self._textfile and has_others:  # keep the last query's metrics for node exporter
            self._textfile.write()

    @contextlib.contextmanager
    def _warn_once(self) -> Iterator[None]:
        """Suppress failures, because metrics must not stop a query; log only the first one."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (a query does not end because of its metrics)
            if not self._has_warned:
                self._has_warned = True
                reason = self._redact(str(error))
                message = "metrics could not be updated; later failures are not logged: %s"
                logger.warning(message, reason)


class _Listener(StreamingQueryListener):
    """Pass the events of all queries in a session to an exporter."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        self._exporter.record_progress(event.progress.json)

    def onQueryIdle(self, event: Any) -> None:
        self._exporter.record_idle(str(event.id), event.timestamp)

    def onQueryTerminated(self, event: Any) -> None:
        self._exporter.record_end(str(event.id), str(event.runId), event.exception)


def attach(
    spark: SparkSession,
    config: MetricsConfig,
    redact: Callable[[str], str] | None = None,
    why: Callable[[str, str], str] | None = None,
) -> Exporter:
    """Start to export the metrics of all queries in a session to the outlets in `config`.

    Parameters
    ----------
    spark, config
        The session, and where to export its metrics; by default, nothing is exported.
    redact
        Removes secrets from texts such as Spark's messages. Default: `Redactor`.
    why
        Returns one line that explains why a query failed, given its ID and Spark's message.
        Default: the message's first line, or the exception of its Python traceback.

    Raises
    ------
    MetricsError
        If the endpoint cannot listen, the log cannot be opened, or a folder does not exist.
    """
    exporter = Exporter(config, redact, why, lambda query_id: request_log_ends(spark, query_id))
    if config.exports:
        exporter.at_close.callback(listen(spark, _Listener(exporter)))
    return exporter


def listen(spark: SparkSession, listener: StreamingQueryListener) -> Callable[[], None]:
    """Add a listener; return a function that waits up to 10 s for its events and removes it."""
    spark.streams.addListener(listener)

    def detach() -> None:
        session: Any = getattr(spark, "_jsparkSession", None)  # a Spark Connect session has none
        with contextlib.suppress(ConnectionError):  # Spark's JVM has ended
            try:
                if session is not None:
                    session.sparkContext().listenerBus().waitUntilEmpty()
            except Py4JError:  # waitUntilEmpty times out after 10 s
                logger.warning("last metrics may be missing: Spark did not send all events in 10 s")
            spark.streams.removeListener(listener)

    return detach
