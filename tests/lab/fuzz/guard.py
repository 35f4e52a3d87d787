"""Runs a reader on one input, and keeps the inputs that it fails on, one for each place."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
#: An input that takes so long is a failure: a reader's time is in proportion to the bytes.
SLOWEST_S = 20
_OURS = ("assignor_bridge", "checkpoints", "streaming", "tests")


@dataclass(frozen=True)
class Kind:
    """A reader of untrusted input."""

    name: str
    #: Takes any bytes; reads, uses what was read, and checks what must be true of it.
    read: Callable[[bytes], object]
    #: What it may raise.
    may_raise: tuple[type[Exception], ...]
    #: Inputs as real writers make them.
    seeds: Callable[[Path], list[bytes]]
    #: Words that a random change seldom makes.
    words: tuple[str, ...] = ()
    longest: int = 8192


class TooSlowError(Exception):
    """An input takes too long."""


@dataclass
class Guard:
    """Calls a reader and writes down what it should not do."""

    kind: Kind
    folder: Path
    #: Why, by the place in the code; the first input of each is kept.
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def kept(self) -> Path:
        """Where inputs of failures are."""
        return self.folder / "failures"

    def __call__(self, data: bytes) -> bool:
        """Return whether the reader does with an input what it may do."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.kind.read(data)
        except self.kind.may_raise:
            return True
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001
            self._keep(data, error)
        else:
            return True
        return False

    def earlier(self) -> int:
        """Try the inputs of earlier failures; those that are mended go to the others."""
        found = [file for file in sorted(self.kept.glob("*")) if file.suffix != ".txt"]
        for file in found:
            data = file.read_bytes()
            with _limited():
                is_good = self(data)
            if is_good:
                (self.folder / "corpus" / _digest(data)).write_bytes(data)
            if file not in map(self._file, self.failures):  # else it is just as before
                file.unlink()
                file.with_suffix(".txt").unlink(missing_ok=True)
        return len(found)

    def _keep(self, data: bytes, error: BaseException) -> None:
        place = where(error)
        if place not in self.failures:
            self.failures[place] = "".join(traceback.format_exception(error))
            name = self._file(place)
            name.write_bytes(data)
            text = f"{place}\n{self.failures[place]}"
            name.with_suffix(".txt").write_text(text, "utf-8", "replace")

    def _file(self, place: str) -> Path:
        return self.kept / _digest(place.encode())


def where(error: BaseException) -> str:
    """Name an error by its type and the innermost line of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if _is_ours(f.filename)] or frames
    last = ours[-1] if ours else None
    line = f"{Path(last.filename).name}:{last.lineno}" if last else "?"
    return f"{type(error).__name__} at {line}"


def _is_ours(name: str) -> bool:
    path = Path(name)
    if not path.is_relative_to(ROOT):
        return False
    parts = path.relative_to(ROOT).parts
    return parts[0] in _OURS and parts[:2] != ("tests", "fuzz")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Interrupt what takes too long; the engine does that by itself, and ends."""

    def stop(*_: Any) -> None:
        raise TooSlowError(f"it takes longer than {SLOWEST_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SLOWEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
