"""Checkpoints written as Spark 4.0 writes them, for tests of what reads them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    #: End offset by topic and partition.
    Ends = dict[str, dict[int, int]]

START_MS = 1_795_262_400_000


def write_checkpoint(
    folder: Path, ends: Sequence[Ends], *, first: int = 0, begin: Ends | None = None,
    seconds: float = 2.0,
) -> Path:  # fmt: skip
    """Write a query's checkpoint: a batch every 10 s that took `seconds`; `begin` with batch 0."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"d9a5a3a1-0000-4000-8000-000000000001"}')
    begin = begin or {topic: dict.fromkeys(found, 0) for topic, found in ends[0].items()}
    (folder / "sources" / "0" / "0").write_text(f"\0v1\n{json.dumps(begin)}")
    for number, end in enumerate(ends, first):
        at_ms = START_MS + 10_000 * number
        metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": at_ms, "conf": {}})
        (folder / "offsets" / str(number)).write_text(f"v1\n{metadata}\n{json.dumps(end)}")
        commit = folder / "commits" / str(number)
        commit.write_text('v1\n{"nextBatchWatermarkMs":0}')
        os.utime(commit, (at_ms / 1000 + seconds,) * 2)
    return folder
