"""Write checkpoints of one batch in the format of Spark 4.0."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "d9a5a3a1-0000-4000-8000-000000000002"


def write_query(
    folder: Path, ends: dict[str, dict[int, int]], *, batch: int = 0, age_s: float = 0
) -> str:
    """Write one completed batch that was planned `age_s` ago."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": QUERY}))
    begin = {topic: dict.fromkeys(offsets, 0) for topic, offsets in ends.items()}
    (folder / "sources/0/0").write_text(f"\0v1\n{json.dumps(begin)}")
    at_ms = int((time.time() - age_s) * 1000)
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": at_ms})
    (folder / "offsets" / str(batch)).write_text(f"v1\n{metadata}\n{json.dumps(ends)}")
    (folder / "commits" / str(batch)).write_text("v1\n{}")
    return str(folder)
