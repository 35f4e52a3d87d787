"""A reader with a bug that only coverage leads to, which the test of the harness must find."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lab.fuzz.engine import fuzz
from tests.lab.fuzz.guard import Kind


def read(data: bytes) -> None:
    """Fail on what begins with three certain bytes; by chance that is one input in 16 millions."""
    if not data:
        raise ValueError("that is allowed")
    if data[:1] == b"B":  # noqa: SIM102  (each is a step that coverage sees)
        if data[1:2] == b"U":  # noqa: SIM102
            if data[2:3] == b"G":
                raise KeyError("planted")


def main() -> None:
    """Fuzz it."""
    import atheris

    *_, folder = sys.argv[1:]
    kind = Kind(
        "planted", atheris.instrument_func(read), (ValueError,), lambda _: [b"seed"], longest=16
    )
    fuzz(kind, Path(folder), "-runs=300000", "-seed=1")  # the same on a slow machine


if __name__ == "__main__":
    main()
