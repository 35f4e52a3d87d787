"""The instruments of `make chaos KIND=…`: what they name is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harm import WITH
from tests.faults.kinds import KINDS
from tests.faults.report import table
from tests.faults.without import PROTECTIONS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PROTECTIONS)
def test_a_protection_can_be_taken_out(name: str, tmp_path: Path) -> None:
    one = PROTECTIONS[name]
    assert set(one.kinds) <= set(KINDS)
    copy = tmp_path / one.file
    copy.parent.mkdir(parents=True)
    copy.write_text((ROOT / one.file).read_text())
    one.take_out(tmp_path)
    assert one.new in copy.read_text()


def test_the_table_has_each_kind_and_what_was_run_with_options() -> None:
    run = {
        "kind": "broker killed", "options": "zones", "seconds": 60, "batches": 5, "rows": 7,
        "lost": 1, "fallbacks": 0, "sparks_lost": 3, "errors": {"ours": "x", "sparks": "x"},
    }  # fmt: skip
    skipped = {"kind": "state disk full", "options": "", "seed": 1, "skipped": "needs root"}
    failed = {"kind": "broker stopped", "options": "", "seed": 1, "failed": "no"}
    written = table([run, skipped, failed], ["abc"])
    lines = [line for line in written.splitlines() if line.startswith("|")][2:]
    assert len(lines) == len(KINDS) + 1
    assert "zones" in WITH
    [line] = [line for line in lines if "broker killed, with zones" in line]
    beside = "lost 3, ended with an error as ours did (1 of 1)"
    assert line.endswith(f"| 1 | 5 | 8 | 1 (gone from the topic) | 0 | {beside} |")
    assert "| needs root |" in next(line for line in lines if "state disk full" in line)
    assert "1 that FAILED" in next(line for line in lines if "broker stopped" in line)
    assert "1 runs in 1 minutes at commit abc" in written
