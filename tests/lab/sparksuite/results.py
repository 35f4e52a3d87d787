"""What a suite did: its tests by name from ScalaTest's report, and our plans from Spark's log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Expectation(NamedTuple):
    """Why a test fails; `by_chance` when it may pass, too."""

    reason: str
    by_chance: bool = False


#: What is expected to fail, by suite and test.
Expected = dict[tuple[str, str], Expectation]

_PLAN = re.compile(r"BatchPlanner .*: assignor '([^']+)' planned tasks: ")
_ADMISSION = re.compile(r"BatchPlanner .*: admitted a batch: ")
EXPECTED = Path(__file__).with_name("expected_failures.yaml")


@dataclass(frozen=True)
class Suite:
    """The results of one suite.

    Attributes
    ----------
    passed, failed
        Names of tests; ignored ones are in neither.
    plans, admissions
        Batches planned by the strategy that was asked for, and those that our options limited.
    """

    name: str
    passed: frozenset[str]
    failed: frozenset[str]
    plans: int
    admissions: int = 0


def read_suite(name: str, reports: Path, log: str, strategy: str) -> Suite:
    """Read ScalaTest's JUnit reports in a folder, and Spark's log."""
    passed, failed = set(), set()
    for report in reports.glob("TEST-*.xml"):
        for case in ElementTree.parse(report).getroot().iter("testcase"):  # noqa: S314  (ours)
            test = case.attrib["name"]
            if case.find("failure") is not None or case.find("error") is not None:
                failed.add(test)
            elif case.find("skipped") is None:
                passed.add(test)
    plans = sum(found == strategy for found in _PLAN.findall(log))
    admissions = len(_ADMISSION.findall(log))
    return Suite(name, frozenset(passed), frozenset(failed), plans, admissions)


def expected_failures(
    line: str, path: Path = EXPECTED, *, admission: str | None = None, split: str = "true"
) -> Expected:
    """Return why each test must fail; some fail only on a line of Spark, or with these options."""
    return {
        (suite, str(test)): Expectation(group["reason"], group.get("by_chance", False))
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))
        if "admission" not in group or admission in group["admission"]
        if split in group.get("split", [split])
        if line in group.get("sparks", [line])
        for entry in group["tests"]
        for suite, test in entry.items()
    }


def complaints(
    suite: Suite,
    expected: Mapping[tuple[str, str], Expectation],
    plans_are_due: bool,
    admissions_are_due: bool = False,
) -> list[str]:
    """Say what is wrong with a suite's results; nothing when all is as it should be."""
    due = {test for name, test in expected if name == suite.name}
    certain = {test for test in due if not expected[suite.name, test].by_chance}
    lines = [f"{suite.name}: failed: {test}" for test in sorted(suite.failed - due)]
    lines += [
        f"{suite.name}: passed, but is listed as an expected failure: {test}"
        for test in sorted(certain & suite.passed)
    ]
    lines += [
        f"{suite.name}: did not run, but is listed as an expected failure: {test}"
        for test in sorted(due - suite.passed - suite.failed)
    ]
    if not suite.passed | suite.failed:
        lines.append(f"{suite.name}: no test ran")
    if plans_are_due and not suite.plans:
        lines.append(f"{suite.name}: no batch was planned by the bridge: it was not on")
    if admissions_are_due and not suite.admissions:
        lines.append(f"{suite.name}: no batch was limited by the bridge: admission was not on")
    return lines


def report(suites: Iterable[Suite], expected: Expected, wrong: Iterable[str]) -> str:
    """Return all of it as JUnit's XML: expected failures are skipped, each complaint has failed."""
    root = ElementTree.Element("testsuite")
    for suite in suites:
        for test in sorted(suite.passed | suite.failed):
            if test in suite.passed or (suite.name, test) in expected:
                case = ElementTree.SubElement(root, "testcase", classname=suite.name, name=test)
                if test in suite.failed:
                    ElementTree.SubElement(
                        case, "skipped", message=expected[suite.name, test].reason
                    )
    for line in wrong:
        case = ElementTree.SubElement(root, "testcase", classname="tests.lab.sparksuite", name=line)
        ElementTree.SubElement(case, "failure")
    return ElementTree.tostring(root, encoding="unicode")
