"""What one run of all targets came to: its own page, and the pages that it measured as a whole."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tests.lab.benchmarks import results
from tests.lab.benchmarks.report import machine, write_document
from tests.lab.benchmarks.steps import ELSEWHERE
from tests.lab.benchmarks.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.lab.benchmarks.steps import Step

Document = dict[str, Any]

_NOTES = """
`make bench TARGETS=1`: every benchmark that a target rests on, one after the other, at one commit,
on a machine that has nothing else to do. {counts}

In `steps`, `begun` is in UTC: a gap means that the run was stopped and continued. `tries` counts
the runs of a step, of which the last is used. `busy` is the share of the processors' time in use in
the second before it.

{elsewhere}
"""


def write(folder: Path, steps: Sequence[Step], docs: Path) -> None:
    """Write the run's document, those that are whole, their pictures, and the page of results."""
    results_of_steps = {step.name: step.result(folder) or {} for step in steps}
    found = write_whole(folder, steps, docs)
    write_document(docs, results.ONE_RUN, document(folder.name, steps, results_of_steps, found))
    results.write(docs)


def write_whole(folder: Path, steps: Sequence[Step], docs: Path) -> dict[str, Document]:
    """Write the documents whose steps have all measured, and their pictures; return all."""
    found = pages(folder, steps)
    for page, document in found.items():
        of_page = [step for step in steps if step.page == page]
        if not all(step.is_done(folder) for step in of_page):
            continue
        write_document(docs, page, document)
        for step in of_page:
            pictures = step.folder(folder) / "images"
            shutil.copytree(pictures, docs.parent / "images", dirs_exist_ok=True)
    return found


def pages(folder: Path, steps: Sequence[Step]) -> dict[str, Document]:
    """Return each page that was measured, with the rows of all its steps."""
    found: dict[str, Document] = {}
    for step in steps:
        path = step.written(folder)
        if not path.is_file():
            continue
        document = json.loads(path.read_text(encoding="utf-8"))
        if step.page in found:
            found[step.page]["rows"] += document["rows"]
        else:
            found[step.page] = document
    return found


def document(
    commit: str, steps: Sequence[Step], ended: Mapping[str, Mapping[str, Any]],
    found: Mapping[str, Document],
) -> Document:  # fmt: skip
    """Return the run's figures for each target, and how each step ended."""
    targets = [target for target in TARGETS if target.page not in ELSEWHERE]
    figures = [results.figure_of(target, found.get(target.page)) for target in targets]
    measured = [
        (t, figure) for t, figure in zip(targets, figures, strict=True) if figure is not None
    ]
    met = sum(target.met(figure) for target, figure in measured)
    counts = (
        f"Of {len(targets)} targets {met} are met, {len(measured) - met} missed and "
        f"{len(targets) - len(measured)} not measured."
    )
    elsewhere = "\n".join(f"- Not in this run: {page}, {why}" for page, why in ELSEWHERE.items())
    rows = [
        {
            "area": target.area, "what": target.what, "page": target.page,
            "target": results.limit_of(target), "measured": figure,
            "result": results.verdict_of(target, figure),
        }
        for target, figure in measured
    ]  # fmt: skip
    return {
        "title": "All targets in one run",
        "notes": _NOTES.format(counts=counts, elsewhere=elsewhere).strip(),
        "run": where(commit, ended, found),
        "rows": rows,
        "steps": [_row(step, ended[step.name]) for step in steps],
    }


def where(
    commit: str, results: Mapping[str, Mapping[str, Any]], found: Mapping[str, Document]
) -> dict[str, Any]:
    """Return machine, versions, commit and time, as they were then."""
    began = datetime.fromtimestamp(min(r["began"] for r in results.values()), timezone.utc)
    told = next((document["run"] for document in found.values()), {})
    return {
        **{name: told.get(name, value) for name, value in machine().items()},
        "date": began.date().isoformat(),
        "commit": commit,
        "hours of all steps": round(sum(r["seconds"] for r in results.values()) / 3600, 1),
    }


def _row(step: Step, result: Mapping[str, Any]) -> dict[str, Any]:
    settings = [f"{name}={value}" for name, value in step.settings.items()]
    settings += [step.only] if step.only else []
    ended = "passed"
    if result["code"]:
        what = "measured, a check failed" if result["measured"] else "failed"
        ended = f"{what} (exit code {result['code']})"
    return {
        "step": step.name, "page": step.page, "settings": ", ".join(settings), "result": ended,
        "minutes, estimated": step.minutes,
        "begun": f"{datetime.fromtimestamp(result['began'], timezone.utc):%d %H:%M}",
        "minutes": round(result["seconds"] / 60, 1), "tries": result["tries"],
        "busy": round(result["busy"], 2),
    }  # fmt: skip
