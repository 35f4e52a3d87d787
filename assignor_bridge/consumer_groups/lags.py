"""Lags of a consumer group, looked up on a separate thread with a separate client.

kafka-python runs `assign` on the consumer's only I/O thread, so a request from there would wait for
itself. Lags are looked up in advance: for a new topic at once, then every 30 seconds.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import AssignorError, convert_errors, elide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Lags = Mapping[str, Mapping[int, int]]  # by topic and partition number

_REFRESH_S = 30.0
_LOG = logging.getLogger(__name__)


class LagReader:
    """Reads the lags of a group's topics in the background.

    `connect` returns a client with `look_up(topics)` and `close()`; after an error, `connect` is
    called again. The thread ends when `is_needed()` is false.
    """

    def __init__(self, connect: Callable[[], Any], is_needed: Callable[[], bool]) -> None:
        self._connect = connect
        self._is_needed = is_needed
        self._topics: frozenset[str] = frozenset()
        self._lags: Lags = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_look_up_failed = False
        self._topics_in_log: set[str] = set()

    def watch(self, topics: Iterable[str]) -> None:
        """Look these topics up from now on, at once if one of them is new; do not wait."""
        if not self._topics.issuperset(topics := frozenset(topics)):
            self._topics |= topics
            self._wake.set()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="assignor-lags", daemon=True)
            self._thread.start()

    def get_lags(self, topics: Iterable[str]) -> Lags:
        """Return all lags of the last look-up; log each of `topics` without lags once."""
        lags = self._lags
        topics_without_lags = sorted(set(topics) - lags.keys() - self._topics_in_log)
        if topics_without_lags:
            self._topics_in_log.update(topics_without_lags)
            _LOG.warning(
                "the lags of %s are not known yet: 0 is used in this rebalance",
                elide(topics_without_lags),
            )
        return lags

    def _run(self) -> None:
        client: Any = None
        message = "the lags could not be looked up ({}): the last known ones, or 0, are used"
        while self._is_needed():
            self._wake.clear()
            try:
                with convert_errors(AssignorError, message):
                    client = client or self._connect()
                    self._lags = client.look_up(self._topics)
                self._last_look_up_failed = False
            except AssignorError as error:
                if not self._last_look_up_failed:
                    _LOG.warning("%s", error)
                self._last_look_up_failed = True
                if client:
                    client.close()
                client = None
            self._wake.wait(_REFRESH_S)
        if client:
            client.close()
