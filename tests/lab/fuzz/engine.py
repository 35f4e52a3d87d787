"""One reader under libFuzzer, by atheris: `python -m tests.lab.fuzz.engine KIND SECONDS FOLDER`.

The code that is fuzzed is instrumented when it is imported, so it is imported here only. What a
reader fails on is written down, and the run goes on; libFuzzer itself ends with an input that takes
too long or too much memory, and keeps that.
"""

from __future__ import annotations

import gc
import json
import random
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.fuzz.guard import SLOWEST_S, Guard, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

_INSTRUMENTED = ["assignor_bridge", "checkpoints", "streaming"]
_MOST_MB = 4096
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.+-]+|[^\w\s"]')
#: How many changes are by token, the others are libFuzzer's; and how many of these only add.
_BY_TOKEN, _INSERTED = 0.5, 0.1
#: Of the rest, those that keep the length, which columns of numbers depend on.
_IN_PLACE = 0.4


def fuzz(kind: Kind, folder: Path, *limits: str) -> None:
    """Fuzz one reader; libFuzzer ends the process at the limits, which are settings of its own."""
    import atheris

    for name in ("corpus", "failures", "seeds", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(kind.seeds(_empty(folder / "work"))):
        (folder / "seeds" / str(number)).write_bytes(seed)
    guard, result = Guard(kind, folder), folder / "result.json"
    result.write_text("[]")
    gc.collect()
    gc.freeze()  # the planner collects after each answer
    guard.earlier()
    result.write_text(json.dumps([*guard.failures]))

    def run(data: bytes) -> None:
        known = len(guard.failures)
        guard(data)
        if len(guard.failures) > known:
            result.write_text(json.dumps([*guard.failures]))

    corpus, seeds = str(folder / "corpus"), str(folder / "seeds")
    settings = [
        *limits, f"-timeout={SLOWEST_S}", f"-rss_limit_mb={_MOST_MB}",
        f"-artifact_prefix={folder / 'failures'}/", f"-max_len={kind.longest}",
        "-reload=0",
    ]  # fmt: skip
    words = [word.encode() for word in kind.words]

    def change(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < _BY_TOKEN and (changed := with_other_token(data, words, chance)):
            return changed[:most]
        if data and chance.random() < _IN_PLACE:
            return with_other_bytes(data, chance)
        return bytes(atheris.Mutate(data, most))

    atheris.Setup([sys.argv[0], *settings, corpus, seeds], run, custom_mutator=change)
    atheris.Fuzz()


def with_other_token(data: bytes, words: Sequence[bytes], chance: random.Random) -> bytes | None:
    """Put another token in the place of one, so that JSON mostly stays JSON; None without any."""
    tokens = [match.span() for match in _TOKEN.finditer(data)]
    if not tokens:
        return None
    begin, end = chance.choice(tokens)
    first, last = chance.choice(tokens)
    others = [data[first:last], b"", b"%d" % chance.getrandbits(chance.choice((3, 8, 33, 63, 64)))]
    other = chance.choice([*others, *words])
    return data[:begin] + other + data[begin if chance.random() < _INSERTED else end :]


def with_other_bytes(data: bytes, chance: random.Random) -> bytes:
    """Put other bytes in the place of some that stand in a row."""
    at, count = chance.randrange(len(data)), chance.choice((1, 2, 4, 8))
    other = chance.choice((b"\0", b"\x7f", b"\x80", b"\xff", b"9", bytes([chance.getrandbits(8)])))
    count = min(count, len(data) - at)
    return data[:at] + other * count + data[at + count :]


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder)
    folder.mkdir()
    return folder


def main() -> None:
    """Fuzz the reader that the command line names."""
    import atheris

    name, seconds, folder = sys.argv[1:]
    with atheris.instrument_imports(include=_INSTRUMENTED):
        from tests.lab.fuzz.kinds import KINDS
    fuzz(KINDS[name], Path(folder), f"-max_total_time={seconds}")


if __name__ == "__main__":
    main()
