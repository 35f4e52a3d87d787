"""The README is run, not trusted: its program works as pasted, its commands and links exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.integration
@pytest.mark.drivers
def test_the_program_runs_as_pasted(tmp_path: Path) -> None:
    [program] = [block for block in code_blocks("python") if "EmbeddedBroker" in block]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'assignor.tasks': '2'" in done.stdout
    assert "'assignor.strategy': 'lag-aware-sticky'" in done.stdout


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_its_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z-]+)\b", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), f"make {target}"


def test_its_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README):
        assert (ROOT / link).exists(), link
