"""The quick start is run, not trusted: its program works as pasted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import drivers

ROOT = Path(__file__).parents[2]


@pytest.mark.integration
@pytest.mark.drivers
def test_the_program_runs_as_pasted(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    [program] = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    out = drivers.run_pasted(program, tmp_path)
    assert "'assignor.tasks': '2'" in out
    assert "'assignor.strategy': 'lag-aware-sticky'" in out
