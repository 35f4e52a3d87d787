"""Ctrl-C and SIGTERM as an orderly end of a command that runs until it is stopped."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _StopRequestedError(BaseException):
    """Ctrl-C or SIGTERM."""


class StopSignals:
    """A `with` block that the first signal ends; the next one ends the process, should that hang.

    After a signal, an error in the block is taken for its consequence and not raised.

    With `unwinds` the next one is a KeyboardInterrupt, for who has a terminal to put right.
    Once `notes_only()` was called, the signal is noted in `number` and nothing is raised: in the
    midst of a call to Spark's JVM an exception would leave the connection to it unusable.
    """

    def __init__(self, *, unwinds: bool = False) -> None:
        self.number: int | None = None
        self._next = signal.default_int_handler if unwinds else signal.SIG_DFL
        self._raises = True
        self._before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}

    def __enter__(self) -> StopSignals:
        self._install_handlers()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> bool:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is KeyboardInterrupt and self.number is None:  # by pyspark's handler
            self.number = signal.SIGINT
            return True
        if self.number is None or kind is None or issubclass(kind, typer.Exit):
            return False
        return issubclass(kind, (Exception, _StopRequestedError))

    def stop_raising(self) -> None:
        """Note signals from now on; to be called when pyspark, which has its own handler, is up."""
        self._raises = False
        self._install_handlers()

    def _install_handlers(self) -> None:
        for number in _STOP_SIGNALS:
            signal.signal(number, self._handle_signal)

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        is_second = self.number is not None  # it was pending while the first was being noted
        self.number = self.number or number
        for each in _STOP_SIGNALS:
            signal.signal(each, self._next)
        if is_second:
            signal.raise_signal(number)
        if self._raises:
            raise _StopRequestedError


@contextlib.contextmanager
def unwind_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind as Ctrl-C does, with its own exit code, so that nothing is left."""

    def unwind(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
