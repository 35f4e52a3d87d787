"""The picture of docs/report.md is made of the pictures of a page of `assignor report`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from streaming.cli import main
from tests.support.report_picture import picture_of
from tests.unit.metrics import samples

RECORDED = Path(samples.__file__).with_name("recorded_progress.jsonl")


def test_the_pictures_of_a_real_querys_page_are_laid_out(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert main.run(["report", str(RECORDED), "--output", str(page)]) == 0
    drawn = picture_of(page.read_text(encoding="utf-8"))
    ElementTree.fromstring(drawn)  # noqa: S314  (our own)
    assert "Lag when a batch began" in drawn
    assert "Seconds of each batch" in drawn
    assert str(RECORDED.parent) not in drawn
