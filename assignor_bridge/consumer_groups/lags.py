"""Lags of a consumer group, looked up on a separate thread with a separate client.

kafka-python runs `assign` on the consumer's only I/O thread, so a request from there would wait for
itself. Lags are looked up in advance (of a new topic at once, every 30 seconds), not at each join.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import describe_error, elide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Lags = Mapping[str, Mapping[int, int]]

_REFRESH_S = 30.0
_LOG = logging.getLogger(__name__)


class LagReader:
    """Reads the lags of a group's topics in the background.

    `connect` returns a client with `look_up(topics)` and `close()`; it is called again after an
    error. The thread ends when `is_needed()` is false.
    """

    def __init__(self, connect: Callable[[], Any], is_needed: Callable[[], bool]) -> None:
        self._connect = connect
        self._is_needed = is_needed
        self._topics: frozenset[str] = frozenset()
        self._lags: Lags = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_failed = False
        self._reported: set[str] = set()

    def watch(self, topics: Iterable[str]) -> None:
        """Add topics to those looked up, at once if one of them is new; return without waiting."""
        if not self._topics.issuperset(topics := frozenset(topics)):
            self._topics |= topics
            self._wake.set()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="assignor-lags", daemon=True)
            self._thread.start()

    def last(self, topics: Iterable[str]) -> Lags:
        """Return the last known lags; log once for each topic that has none."""
        lags = self._lags
        unknown = sorted(set(topics) - lags.keys() - self._reported)
        if unknown:
            self._reported.update(unknown)
            _LOG.warning(
                "the lags of %s are not known yet: they count as 0 in this rebalance",
                elide(unknown),
            )
        return lags

    def _run(self) -> None:
        client: Any = None
        while self._is_needed():
            self._wake.clear()
            try:
                client = client or self._connect()
                self._lags = client.look_up(self._topics)
                self._has_failed = False
            except Exception as error:  # noqa: BLE001  (the group works without lags)
                if not self._has_failed:
                    _LOG.warning(
                        "the lags of the group could not be looked up (%s): the last known ones "
                        "are used, 0 if there are none",
                        describe_error(error),
                    )
                self._has_failed = True
                if client:
                    client.close()
                client = None
            self._wake.wait(_REFRESH_S)
        if client:
            client.close()
