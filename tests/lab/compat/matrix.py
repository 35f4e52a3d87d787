"""What `make matrix` runs where, what became of it, and the table in docs/internals/evidence.md.

A cell is one kind of tests on one Spark, Python and Java, named `4.2.0/3.11/17/queries`. All kinds
run on each Spark with Python 3.11 and Java 17; with each other Python and each other Java, `compat`
does, on each Spark. Pairs of these, not their full product: what depends on Spark and on Python at
once is the start of the planner and pyspark's own API, which `compat` goes through.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from assignor_bridge.tested_spark import TESTED_SPARKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "benchmarks" / "matrix.json"
PAGE = ROOT / "docs" / "internals" / "evidence.md"
NOT_RUN_THERE = Path(__file__).with_name("deselected.yaml")
PYTHONS = ("3.11", "3.10", "3.12", "3.13")
JAVAS = ("17", "21")
#: Each kind, and pytest's words for it; Spark's own suites have a runner of their own.
KINDS: dict[str, tuple[str, ...]] = {
    "compat": ("-m", "compat", "tests/lab/compat"),
    "queries": ("-m", "integration and not long and not (kills or drivers)", "tests/integration"),
    "drivers": ("-m", "integration and not long and drivers and not kills", "tests/integration"),
    "kills": ("-m", "integration and not long and kills", "tests/integration"),
    "suites": (),
}
_BEGIN = "<!-- The table is generated from benchmarks/matrix.json by `make matrix`. -->"
_END = "<!-- End of the table. -->"


@dataclass(frozen=True)
class Cell:
    """One kind of tests on one combination of versions."""

    spark: str
    python: str
    java: str
    kind: str

    @property
    def name(self) -> str:
        """What `--only` is compared with."""
        return "/".join((self.spark, self.python, self.java, self.kind))


@dataclass(frozen=True)
class Result:
    """What became of a cell, of which commit and with which jar."""

    cell: Cell
    passed: int
    failed: Sequence[str]
    skipped: int
    deselected: int
    not_reached: int
    minutes: float
    commit: str
    date: str
    jar: str = ""

    def in_words(self) -> str:
        """What the table says."""
        words = [f"FAILED: {len(self.failed)}"] if self.failed else []
        words.append(f"{self.passed} passed")
        words += [f"{self.skipped} skipped"] if self.skipped else []
        words += [f"{self.deselected} left out"] if self.deselected else []
        words += [f"{self.not_reached} not reached"] if self.not_reached else []
        return f"{', '.join(words)} (`{self.commit}`)"


def cells() -> list[Cell]:
    """Return the cells: first each Spark with the default Python and Java, then the others."""
    python, java = PYTHONS[0], JAVAS[0]
    found = [Cell(spark, python, java, kind) for spark in TESTED_SPARKS for kind in KINDS]
    found += [Cell(spark, each, java, "compat") for each in PYTHONS[1:] for spark in TESTED_SPARKS]
    found += [Cell(spark, python, each, "compat") for each in JAVAS[1:] for spark in TESTED_SPARKS]
    return found


def chosen(patterns: Iterable[str]) -> list[Cell]:
    """Return the cells whose names match one of these patterns."""
    return [cell for cell in cells() if any(fnmatchcase(cell.name, each) for each in patterns)]


def deselected(cell: Cell) -> dict[str, str]:
    """Return the tests that are left out in this cell, each with the reason."""
    groups = yaml.safe_load(NOT_RUN_THERE.read_text(encoding="utf-8")) or []
    return {
        test: group["reason"]
        for group in groups
        if any(fnmatchcase(cell.name, each) for each in group["cells"])
        for test in group["tests"]
    }


def read_results() -> dict[Cell, Result]:
    """Return what is known, by cell."""
    if not RESULTS.exists():
        return {}
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    return {(each := _result(row)).cell: each for row in rows}


def _result(row: dict[str, Any]) -> Result:
    cell = Cell(**{name: row.pop(name) for name in ("spark", "python", "java", "kind")})
    return Result(cell, **row)


def record(result: Result) -> None:
    """Replace what was known of a cell, in the file and in the table of the page."""
    known = {**read_results(), result.cell: result}
    ordered = [known[cell] for cell in cells() if cell in known]
    document = {
        "title": "The matrix of versions",
        "command": "make matrix",
        "rows": [_row(each) for each in ordered],
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), known), encoding="utf-8")


def _row(result: Result) -> dict[str, Any]:
    fields = asdict(result)
    return {**fields.pop("cell"), **fields}


def with_table(text: str, results: dict[Cell, Result]) -> str:
    """Put the table into a document, between its two marks."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    head = ("Spark", "Python", "Java", *(f"`{kind}`" for kind in KINDS))
    lines = ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows(results))]
    return f"{before}{_BEGIN}\n\n" + "\n".join(lines) + f"\n\n{_END}{after}"


def rows(results: dict[Cell, Result]) -> list[tuple[str, ...]]:
    """Return a row for each combination of versions; `not run` where nothing is known."""
    found = []
    planned = cells()
    for versions in dict.fromkeys((cell.spark, cell.python, cell.java) for cell in planned):
        of_kinds = []
        for kind in KINDS:
            cell = Cell(*versions, kind)
            result = results.get(cell)
            missing = "not run" if cell in planned else ""
            of_kinds.append(result.in_words() if result else missing)
        found.append((*versions, *of_kinds))
    return found
