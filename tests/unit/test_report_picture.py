"""The picture of docs/diagnose.md is what `assignor report` draws today, and names no machine."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tests.support.report_picture import PICTURE, draw


def test_the_picture_in_the_docs_is_that_of_today() -> None:
    """Made anew by `python -m tests.support.report_picture`."""
    picture = PICTURE.read_text(encoding="utf-8")
    assert picture == draw()
    ElementTree.fromstring(picture)  # noqa: S314  (our own)
    assert not re.search(r"127\.0|localhost|/tmp|/home|/work", picture)
