"""What the docs name exists, and what exists is in the docs."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

from assignor_bridge.options import OPTIONS, PER_TOPIC
from streaming.metrics.names import ASSIGNOR
from tests.support import rights
from tests.support.option_reference import insert_table
from tests.support.planner_process import plan
from tests.unit.test_worker import SNAPSHOT

ROOT = Path(__file__).parents[2]
#: The style of this project, for contributors.
STYLE = ROOT / "docs" / "style.md"
EVIDENCE = "internals/evidence.md"
JAVA = ROOT / "assignor_bridge" / "jvm" / "src" / "io" / "assignorbridge"
#: Settings of a session, and of a table that a job writes, which are no options of a stream.
SETTINGS = {"strategy", "python", "env", "enabled", "killSwitchFile"}
TABLE_PROPERTIES = {"mode", "keys", "deletes", "sequenceBy", "acceptedRestore"}
#: The user's own, `assignor.<name>.<key>`, and the file that locks a checkpoint.
OTHERS = {"mine", "lock", "zone"}


def user_pages() -> list[Path]:
    pages = sorted(set((ROOT / "docs").glob("*.md")) - {STYLE})
    return [ROOT / "README.md", *pages]


def internal_pages() -> list[Path]:
    return [*sorted((ROOT / "docs" / "internals").glob("*.md")), STYLE]


def pages() -> list[Path]:
    return [*user_pages(), ROOT / "CONTRIBUTING.md", *internal_pages()]


def name_of(page: Path) -> str:
    """Return a page's name below `docs`; those of the root are named alone."""
    docs = ROOT / "docs"
    return str(page.relative_to(docs if docs in page.parents else ROOT))


def section_of(page: str, heading: str) -> str:
    """Return the text below a heading of the second level."""
    return text_of(page).partition(f"## {heading}\n")[2].partition("\n## ")[0]


def linked_pages() -> list[Path]:
    return [*pages(), ROOT / "SECURITY.md"]


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def metrics_in_code() -> set[str]:
    """Names in the planner's answer, and those that Java's classes put beside them."""
    planner = ROOT / "assignor_bridge" / "planner"
    explanation = (planner / "explanation.py").read_text(encoding="utf-8")
    admitted = (ROOT / "assignor_bridge" / "limited_batches.py").read_text(encoding="utf-8")
    found = set(re.findall(r'metrics\["(\w+)"\] =', explanation + admitted))
    found |= set(plan(SNAPSHOT)["metrics"])
    found |= set(re.findall(r'^ +"(\w+)": ', admitted, flags=re.MULTILINE))
    java = "\n".join(
        (JAVA / f"{name}.java").read_text(encoding="utf-8")
        for name in ("planning/PlanFigures", "kafka/GroupCommits", "cluster/Zones")
    )
    counted = re.findall(r'"assignor\.(\w+)"|planMetrics\.put\("(\w+)"', java)
    return found | {first or second for first, second in counted}


def test_the_table_of_options_is_that_of_the_code():
    """Write it anew: `python -m tests.support.option_reference docs/options.md`."""
    page = text_of("options.md")
    assert insert_table(page) == page
    advised = section_of("options.md", "Reasons to change an option")
    named = re.findall(r"^- `(\S+?)`: ", advised, flags=re.MULTILINE)
    assert sorted(named) == sorted(option.name for option in (*OPTIONS, *PER_TOPIC))


def test_the_docs_have_all_metrics_of_the_progress():
    section = section_of("metrics.md", "Progress metrics")
    documented = {
        name
        for row in re.findall(r"^\| (`assignor\..*?) \|", section, flags=re.MULTILINE)
        for name in re.findall(r"`assignor\.(\w+)`", row)
    }
    assert documented == metrics_in_code()
    assert {metric.key for metric in ASSIGNOR if metric.key} <= documented


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_what_a_page_names_exists(page: Path):
    options = {option.name.split(".")[1] for option in (*OPTIONS, *PER_TOPIC) if "." in option.name}
    known = options | metrics_in_code()
    named = set(re.findall(r"(?<!-)\bassignor\.([A-Za-z]+)\b", page.read_text(encoding="utf-8")))
    assert named - known - SETTINGS - TABLE_PROPERTIES - OTHERS == set()


@pytest.mark.parametrize("page", linked_pages(), ids=name_of)
def test_its_links_lead_somewhere(page: Path):
    text = page.read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)", text):
        target = page.parent / link if link else page
        assert target.exists(), link
        if anchor:
            heads = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in slugs, f"{link}#{anchor}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_its_make_targets_exist(page: Path):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"`(?:\w+=\S+ )*make ([a-z-]+)", page.read_text(encoding="utf-8"))
    assert [t for t in named if not re.search(rf"^{t}:", makefile, flags=re.MULTILINE)] == []


def promises() -> dict[str, str]:
    """Return the tests of each promise, as the evidence lists them."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.*) \|$", section_of(EVIDENCE, "Guarantees"), re.M)
    return dict(rows)


def test_each_guarantee_has_its_line_in_the_evidence():
    promised = re.findall(r"^\| \*\*(.+?)\*\* \|", text_of("guarantees.md"), flags=re.MULTILINE)
    assert len(promised) > 10
    assert promised == list(promises())


def test_each_guarantee_has_tests_that_exist_and_one_in_make_test():
    for promise, tests in promises().items():
        named = re.findall(r"`((?:tests|assignor_bridge)/\S+?)::(\w+)`", tests)
        for path, name in named:
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
        if tests.startswith("`make spark-suite`"):
            continue
        assert any(not is_long(path, name) for path, name in named), promise


def test_each_change_between_two_runs_has_its_tests():
    heading = "Changes between two runs"
    rows = re.findall(r"^\| (.+?) \| (.*) \|$", section_of(EVIDENCE, heading), flags=re.MULTILINE)
    tests = {change: re.findall(r"`(test_\w+)`", named) for change, named in rows[1:]}
    changes = re.findall(r"^\| (.+?) \|", section_of("upserts.md", heading), flags=re.MULTILINE)
    assert len(changes) > 12
    assert changes[1:] == list(tests)
    existing = {
        name
        for file in (ROOT / "tests").rglob("test_pipeline_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    for change, named in tests.items():
        assert named, change
        assert set(named) <= existing, change


def is_long(path: str, name: str) -> bool:
    """Return whether `make test` leaves all cases of a test to `make evidence`."""
    if path.startswith("tests/lab/"):
        return True
    [function] = [
        node
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    return any(ast.unparse(mark) == "pytest.mark.long" for mark in function.decorator_list)


def test_each_alert_has_its_line_in_the_runbook():
    rules = yaml.safe_load(text_of("prometheus/alerts.yaml"))["groups"][0]["rules"]
    listed = re.findall(r"^\| `(\w+)` \|", text_of("monitor.md"), flags=re.MULTILINE)
    assert listed == [rule["alert"] for rule in rules]


def test_the_runbook_quotes_what_the_driver_says():
    java = "\n".join(path.read_text(encoding="utf-8") for path in JAVA.rglob("*.java"))
    said = re.sub(r'"\s*\+ "', "", java)
    quoted = re.findall(
        r"`(?:assignor-bridge )?(c(?:ould not|annot) [\w -]+)", text_of("troubleshoot.md")
    )
    assert len(quoted) >= 4
    unsaid = [words for words in quoted if re.sub(" (plan|limit) ", " {} ", words) not in said]
    assert [words for words in unsaid if words.replace(" without it", " {}") not in said] == []


def test_the_recorded_log_has_the_metrics_of_today():
    """Recorded again when it has not: a real query, `log_file`, three batches."""
    [shown] = re.findall(r"```json\n(.*?)```", text_of("metrics.md"), flags=re.DOTALL)
    documented = {key.removeprefix("assignor.") for key in json.loads(shown)["sources"][0]}
    planned = {*plan(SNAPSHOT)["metrics"], *(metric.key for metric in ASSIGNOR if metric.key)}
    # That query has no commits, limits, racks, and tail. Nothing was predicted before the plan.
    limits = {"admittedRecords", "secondsToLoss", "eventTimeSpreadSeconds"}
    zones = {"receivedBytes", "crossZoneBytes", "crossZoneShare"}
    tail = {"tailShare", "tailTasks", "unpredictability"}
    assert planned - documented == {"commitFailures", *limits, *zones, *tail}
    assert documented - {"source"} <= metrics_in_code()


def test_the_table_of_rights_is_up_to_date():
    """Write it anew with `python -m tests.support.rights docs/security.md`."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert rights.insert_table(text) == text
