"""The lags of a consumer group, looked up on a thread and with a client of their own.

A consumer of kafka-python runs `assign` on its only I/O thread: a request in there would wait for
itself. So lags are read before they are needed, when the member joins and every 30 seconds, and
`assign` takes the last ones without waiting.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol

from assignor_bridge.errors import describe_error, elide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Lags = Mapping[str, Mapping[int, int]]

#: How old a lag gets while the member stays in its group.
_REFRESH_S = 30.0

_LOG = logging.getLogger(__name__)


class LagClient(Protocol):
    """A client that looks up lags; one thread uses it."""

    def look_up(self, topics: Iterable[str]) -> Lags:
        """Return the lag of each partition of the topics that exist."""

    def close(self) -> None:
        """End its connections."""


class LagReader:
    """Keeps the lags of the topics of a group.

    Parameters
    ----------
    connect
        Opens a client. It is opened again after it raised.
    is_needed
        Whether the consumer is still open. If not, the thread ends.
    """

    def __init__(self, connect: Callable[[], LagClient], is_needed: Callable[[], bool]) -> None:
        self._connect = connect
        self._is_needed = is_needed
        self._topics: frozenset[str] = frozenset()
        self._lags: Lags = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_failed = False
        self._reported: set[str] = set()

    def refresh(self, topics: Iterable[str]) -> None:
        """Start to look up the lags of the topics, and of those named before; do not wait."""
        self._topics |= frozenset(topics)
        self._wake.set()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._run, name="assignor-bridge-lags", daemon=True
            )
            self._thread.start()

    def last(self, topics: Iterable[str]) -> Lags:
        """Return the last lags; a topic without an answer has none, which is logged once."""
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
        client: LagClient | None = None
        while self._is_needed():
            self._wake.clear()
            try:
                client = client or self._connect()
                self._lags = client.look_up(self._topics)
                self._has_failed = False
            except Exception as error:  # noqa: BLE001  (lags are an aid: the group goes on without)
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
