"""The site of `make docs` is built without a warning, and needs nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.long
@pytest.mark.skipif(sys.version_info < (3, 11), reason="the extra `docs` needs Python 3.11")
def test_the_site_is_built_without_a_warning_and_opens_offline(tmp_path: Path) -> None:
    words = ["-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    done = subprocess.run(
        [sys.executable, *words, "-d", str(tmp_path / "trees"), "docs", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    fetched = re.compile(r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*")
    found = [
        found
        for page in (tmp_path / "site").rglob("*.html")
        for found in fetched.findall(page.read_text(encoding="utf-8"))
    ]
    assert found == []
    page = (tmp_path / "site" / "quickstart.html").read_text(encoding="utf-8")
    for part in ("_static/site.css", "_static/copy.js", "2026, the assignor-bridge authors"):
        assert part in page
    assert (tmp_path / "site" / "_static" / "copy.js").is_file()
