"""Draw the picture of docs/diagnose.md: `python -m tests.support.report_picture`.

It shows a real query whose Spark UI is recorded for tests (`served.RECORDED`): three executors of
two slots. Spark's default assignment read batch 4, ours read 12 and 13, and an executor was killed
in batch 12. `assignor report` makes the page; the picture arranges four of its charts.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from streaming.cli import main as command
from streaming.report.svg import standalone_picture
from tests.unit.streaming.served import RECORDED, serve

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "report.svg"
#: Headings of the charts.
PANELS = (
    "When each slot worked, batch 12",
    "When each slot worked, batch 13",
    "Records read by each slot",
    "Time per record, by executor",
)


def draw() -> str:
    """Run the report on the recorded query, and arrange its charts in one picture."""
    with tempfile.TemporaryDirectory() as folder, serve(RECORDED) as served:
        page = Path(folder) / "report.html"
        assert command.run(["report", served.url, "--output", str(page)]) == 0
        text = page.read_text(encoding="utf-8")
    charts = dict(
        re.findall(r"<figure><h3>(?:<span[^>]*></span>)?(.*?)</h3>(<svg.*?</svg>)", text, re.S)
    )
    panels = [(title, charts[title]) for title in PANELS]
    return standalone_picture("A report of a real query", panels)


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
