"""`make evidence`: which steps run, what the summary states, and that each target exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab import evidence

MAKEFILE = (Path(__file__).parents[3] / "Makefile").read_text()


def make_passed(step: str, commit: str) -> evidence.Result:
    return evidence.Result(step, commit, True, 120, "2026-11-27", 2)


@pytest.mark.parametrize("step", evidence.STEPS, ids=lambda step: step.name)
def test_each_step_runs_a_target_of_the_makefile(step: evidence.Step) -> None:
    target, *variables = step.target.split()
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    for variable in variables:
        assert f"$({variable.partition('=')[0]})" in MAKEFILE


def test_only_what_has_not_passed_for_this_code_runs() -> None:
    failed = evidence.Result("long", "new", False, 1, "2026-11-27", 2)
    results = [make_passed("test", "new"), make_passed("compat", "old"), failed]
    missing = [step.name for step in evidence.find_missing(results, "new")]
    assert missing == [step.name for step in evidence.STEPS if step.name != "test"]


def test_the_summary_names_the_commit_of_each_proof() -> None:
    failed = evidence.Result("long", "new", False, 1, "2026-11-27", 2)
    results = [make_passed("test", "new"), make_passed("compat", "old"), failed]
    lines = {line.split()[0]: line for line in evidence.summarize(results, "new")[1:]}
    assert "proved on 2026-11-27 in 2 min" in lines["test"]
    assert "stale, proved for old on 2026-11-27" in lines["compat"]
    assert "FAILED for new" in lines["long"]
    assert "never run" in lines["kills"]


def test_an_unknown_step_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert evidence.main(["kils"]) == 2
    assert capsys.readouterr().err.startswith("evidence: no step 'kils': test, lab, coverage, ")


def test_a_step_that_fails_is_kept_and_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also if all missing steps run, not some by name."""
    monkeypatch.setattr(evidence, "RESULTS", tmp_path / "evidence.json")
    monkeypatch.setattr(evidence, "_git", lambda *words: "new" if words[0] == "log" else "")
    monkeypatch.setattr(
        evidence, "_run", lambda step, commit: evidence.Result(
            step.name, commit, step.name != "long", 1, "2026-11-27", 2
        ),
    )  # fmt: skip
    assert evidence.main([]) == 1
    assert [step.name for step in evidence.find_missing(evidence.read_results(), "new")] == ["long"]
    assert evidence.main(["test"]) == 0
