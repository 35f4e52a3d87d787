"""Stop a long-running command cleanly on Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Time after which a signal is sent again, if it came while Python drops exceptions.
_RETRY_S = 0.01


class _StopRequestedError(BaseException):
    """The user or the system has requested a stop, by Ctrl-C or SIGTERM."""


class StopSignals:
    """Context manager that ends its block at the first signal, and the process at the second.

    After a signal, an error in the block is suppressed, because the signal probably caused it.
    With `unwinds`, the second signal raises KeyboardInterrupt, so that a terminal can be restored.
    After `defer_signals()`, the first signal only sets `number`, because an exception during a call
    to Spark's JVM would make the connection to the JVM unusable.
    """

    def __init__(self, *, unwinds: bool = False) -> None:
        #: The first signal; None if there was none.
        self.number: int | None = None
        self._second_handler = signal.default_int_handler if unwinds else signal.SIG_DFL
        self._raises = True
        self._timer: threading.Timer | None = None
        self._previous_handlers = {number: signal.getsignal(number) for number in _STOP_SIGNALS}

    def __enter__(self) -> StopSignals:
        self._install_handlers()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        if kind is KeyboardInterrupt and self.number is None:  # raised by pyspark's handler
            self.number = signal.SIGINT
            return True
        if self.number is None or kind is None or issubclass(kind, typer.Exit):
            return False
        return issubclass(kind, (Exception, _StopRequestedError))

    def defer_signals(self) -> None:
        """Let the first signal only set `number`; call this after pyspark installs its handler."""
        self._raises = False
        self._install_handlers()

    def _install_handlers(self) -> None:
        for number in _STOP_SIGNALS:
            signal.signal(number, self._handle_signal)

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if self._raises and self.number is None and _is_in_import_callback(frame):
            main_thread = threading.get_ident()  # Python runs signal handlers in no other
            self._timer = threading.Timer(_RETRY_S, signal.pthread_kill, (main_thread, number))
            self._timer.start()
            return
        is_second = self.number is not None  # it arrived while the first was being handled
        self.number = self.number or number
        for stop_signal in _STOP_SIGNALS:
            signal.signal(stop_signal, self._second_handler)
        if is_second:
            signal.raise_signal(number)
        if self._raises:
            raise _StopRequestedError


def _is_in_import_callback(frame: FrameType | None) -> bool:
    """Return whether `import` is freeing a lock, where Python prints and drops an exception."""
    while frame is not None:
        code = frame.f_code
        if (code.co_filename, code.co_name) == ("<frozen importlib._bootstrap>", "cb"):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def unwind_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that cleanup runs; exit with 143."""

    def unwind(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    previous_handler = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
