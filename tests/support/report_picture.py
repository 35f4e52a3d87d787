"""`python -m tests.support.report_picture`: makes the picture of docs/diagnose.md.

It is of a real query, whose answers of Spark's UI are recorded for tests (`served.RECORDED`): three
executors of two slots; batch 4 was read by Spark's own mapping, 12 and 13 by ours, and an executor
was killed in batch 12. `assignor report` makes the page, the picture lays some of its pictures out.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from streaming.cli import main as command
from streaming.report.svg import standalone
from tests.unit.streaming.served import RECORDED, serve

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "report.svg"
#: Pictures of the page, by their headings.
PANELS = (
    "When each slot worked, batch 12",
    "When each slot worked, batch 13",
    "Records read by each slot",
    "Time a record takes, by executor",
)


def draw() -> str:
    """Report the recorded query, and lay the pictures of its page out."""
    with tempfile.TemporaryDirectory() as folder, serve(RECORDED) as served:
        page = Path(folder) / "report.html"
        assert command.run(["report", served.url, "--output", str(page)]) == 0
        text = page.read_text(encoding="utf-8")
    framed = dict(
        re.findall(r"<figure><h3>(?:<span[^>]*></span>)?(.*?)</h3>(<svg.*?</svg>)", text, re.S)
    )
    return standalone("A report of a real query", [(title, framed[title]) for title in PANELS])


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
