"""Puts metrics and log onto a session: `with attach(spark, config): …`."""

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
    first_error_line,
    make_batch_line,
    make_end_line,
    redact_progress,
)
from streaming.observe.query_progress import parse_time_s, read_progress
from streaming.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from streaming.metrics.config import MetricsConfig
    from streaming.metrics.log_ends import QueryOffsets, TopicOffsets

logger = logging.getLogger(__name__)

_CLOSE_LIMIT_S = 10.0
_MEASURE_EACH_S = 5.0


class Exporter:
    """Endpoint, textfile and log of one configuration, fed by progress events.

    Events are put into a queue and looked at by a thread of ours, so that nothing that is slow or
    fails here (a full disk, a scrape of 10,000 partitions) can hold up Spark. The first failure is
    a warning, later ones are not logged. For the parameters see `attach`.
    """

    def __init__(
        self,
        config: MetricsConfig,
        redact: Callable[[str], str] | None = None,
        why: Callable[[str, str], str] | None = None,
        log_ends: Callable[[str | None], QueryOffsets] = lambda _: {},
    ) -> None:
        self._log_ends = log_ends
        self._redact = redact or Redactor()
        self._why = why or (lambda _, text: first_error_line(text))
        self._board = Board(config.cluster_name)
        self._textfile = (
            Textfile(self._board, config.textfile, config.file_mode) if config.textfile else None
        )
        self._log: Log | None = None
        self._endpoint: Endpoint | None = None
        with contextlib.ExitStack() as opened:
            if config.log is not None or config.log_file is not None:
                self._log = Log(config.log_file, config.file_mode)
                opened.callback(self._log.close)
            if config.port is not None:
                self._endpoint = Endpoint(self._board, config.port, config.address)
                opened.callback(self._endpoint.close)
            #: What `close` does, the last first.
            self.at_close = opened.pop_all()
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._has_warned = False
        self._measure_at_s = 0.0
        thread = threading.Thread(target=self._work, name="assignor-metrics", daemon=True)
        thread.start()
        self.at_close.callback(thread.join, _CLOSE_LIMIT_S)
        self.at_close.callback(self._events.put, None)

    @property
    def port(self) -> int | None:
        """The port of the endpoint, None when there is none."""
        return self._endpoint.port if self._endpoint else None

    def progressed(self, progress: str) -> None:
        """Take in a progress, as Spark's JSON; returns at once."""
        self._events.put(lambda: self._progressed(progress))

    def idle(self, query_id: str, timestamp: str) -> None:
        """Take in that a query waits for records, at a time as Spark tells it; returns at once."""
        self._events.put(lambda: self._idle(query_id, timestamp))

    def ended(self, query_id: str, run_id: str, error: str | None) -> None:
        """Take in that a query has ended; returns at once."""
        self._events.put(lambda: self._ended(query_id, run_id, error))

    def close(self) -> None:
        """Let the events that have come be looked at, then close all outlets."""
        self.at_close.close()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        while (event := self._next_event()) is not None:
            with self._one_warning():
                event()

    def _next_event(self) -> Callable[[], None] | None:
        """Wait for an event, None for the last one; now and then it is to measure the lag."""
        rest_s = self._measure_at_s - time.monotonic()
        if rest_s > 0:
            with contextlib.suppress(queue.Empty):
                return self._events.get(timeout=rest_s)
        self._measure_at_s = time.monotonic() + _MEASURE_EACH_S
        return self._remeasure

    def _remeasure(self) -> None:
        if self._board.is_empty:
            return
        if self._board.measure(self._log_ends(None), time.time()) and self._textfile:
            self._textfile.write()

    @contextlib.contextmanager
    def _one_warning(self) -> Iterator[None]:
        """Tell of the first failure, and of no other: metrics never stop a query."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            if not self._has_warned:
                self._has_warned = True
                reason = self._redact(str(error))
                logger.warning("metrics of a batch could not be written: %s", reason)

    def _progressed(self, text: str) -> None:
        data = redact_progress(orjson.loads(text), self._redact)
        ends: Mapping[str, TopicOffsets] = {}
        with self._one_warning():
            ends = self._log_ends(data["id"]).get(data["id"], {})
        for index, source in enumerate(data["sources"]):
            if str(index) in ends:
                source["logEndOffset"] = ends[str(index)]
        progress = read_progress(data)
        is_new = self._board.update(progress, time.time())
        if self._log and is_new:
            lag_seconds = self._board.max_lag_seconds(progress.query_id)
            with self._one_warning():  # the textfile may be on another disk
                self._log.write(make_batch_line(progress, lag_seconds), data)
        if self._textfile:
            self._textfile.write()

    def _idle(self, query_id: str, timestamp: str) -> None:
        if self._board.idle(query_id, parse_time_s(timestamp)) and self._textfile:
            self._textfile.write()

    def _ended(self, query_id: str, run_id: str, error: str | None) -> None:
        others = self._board.remove(query_id)
        if self._log:
            reason = self._redact(self._why(query_id, error)) if error else None
            with self._one_warning():
                self._log.write(make_end_line(query_id, run_id, reason))
        if self._textfile and others:  # the last query's figures stay, to be collected
            self._textfile.write()


class _Listener(StreamingQueryListener):
    """Hands events of all queries of a session on."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._exporter.progressed(event.progress.json)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self._exporter.idle(str(event.id), event.timestamp)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._exporter.ended(str(event.id), str(event.runId), event.exception)


def attach(
    spark: SparkSession,
    config: MetricsConfig,
    redact: Callable[[str], str] | None = None,
    why: Callable[[str, str], str] | None = None,
) -> Exporter:
    """Measure all queries of a session from now on; nothing if the config asks for nothing.

    Parameters
    ----------
    spark, config
        The session, and where the figures go.
    redact
        Takes the secrets out of texts that are not names, such as Spark's messages; by default
        what has the shape of one.
    why
        Returns in one line why a query failed, by its id and what Spark says.

    Raises
    ------
    MetricsError
        When the port is in use, or a file cannot be written.
    """
    exporter = Exporter(config, redact, why, lambda query_id: request_log_ends(spark, query_id))
    if config.exports:
        exporter.at_close.callback(listen(spark, _Listener(exporter)))
    return exporter


def listen(spark: SparkSession, listener: StreamingQueryListener) -> Callable[[], None]:
    """Add a listener; return what removes it, once it has heard of all that has happened.

    That raises nothing: how a query went must not depend on who hears of it.
    """
    spark.streams.addListener(listener)

    def detach() -> None:
        bus: Any = getattr(spark, "_jsparkSession", None)  # a Spark Connect session has none
        with contextlib.suppress(ConnectionError):  # Spark's JVM has ended
            try:
                if bus is not None:
                    bus.sparkContext().listenerBus().waitUntilEmpty()
            except Py4JError:  # after 10 s
                logger.warning("the last figures of a query may be missing: Spark was too busy")
            spark.streams.removeListener(listener)

    return detach
