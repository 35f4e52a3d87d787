"""What one run of all targets came to: its own page, and the pages that it measured as a whole."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tests.benchmarks import summary
from tests.benchmarks.report import machine, write_page
from tests.benchmarks.steps import ELSEWHERE
from tests.benchmarks.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.benchmarks.steps import Step

Document = dict[str, Any]

_TEXT = """# All targets in one run

`make bench TARGETS=1`: every benchmark that a target rests on, one after the other, at one commit,
on a machine that has nothing else to do. {counts} Nobody edits this page. All that was promised,
with what other runs measured, is in [the summary](summary.md).

{where}

| | asked | measured | | why |
|---|---|---|---|---|
{targets}

{elsewhere}

## Steps

`begun` is in UTC: a gap says that the run was stopped and went on. `tries` counts runs of the step;
the last one stands. `busy` is the share of the processors' time that was in use in the second
before it.

| step | page | settings | result | minutes, reckoned | begun | minutes | tries | busy |
|---|---|---|---|---|---|---|---|---|
{steps}
"""


def write(folder: Path, steps: Sequence[Step], docs: Path) -> None:
    """Write the run's page, the pages that are whole, their pictures and the summary."""
    results = {step.name: step.result(folder) or {} for step in steps}
    found = write_whole(folder, steps, docs)
    told = text(folder.name, steps, results, found)
    for page in found:
        if not (docs / f"{page}.md").is_file():  # never measured as a whole: no link to it
            told = re.sub(rf"\[([^]]*)\]\({page}\.md\)", r"\1", told)
    (docs / "one_run.md").write_text(told, encoding="utf-8")
    summary.write(docs)


def write_whole(folder: Path, steps: Sequence[Step], docs: Path) -> dict[str, Document]:
    """Write the pages whose steps have all measured, and their pictures; return all pages."""
    found = pages(folder, steps)
    for page, document in found.items():
        of_page = [step for step in steps if step.page == page]
        if not all(step.is_done(folder) for step in of_page):
            continue
        write_page(docs, page, document)
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


def text(
    commit: str, steps: Sequence[Step], results: Mapping[str, Mapping[str, Any]],
    found: Mapping[str, Document],
) -> str:  # fmt: skip
    """Return the run's page."""
    here = [target for target in TARGETS if target.page not in ELSEWHERE]
    figures = [summary.figure_of(target, found.get(target.page)) for target in here]
    met = [
        figure is not None and target.met(figure)
        for target, figure in zip(here, figures, strict=True)
    ]
    missing = figures.count(None)
    return _TEXT.format(
        counts=f"Of {len(here)} targets {sum(met)} are met, {len(here) - sum(met) - missing} "
        f"missed and {missing} not measured.",
        where=", ".join(
            f"{name}: {value}" for name, value in where(commit, results, found).items()
        ),
        targets="\n".join(map(summary.line_of, here, figures)),
        elsewhere="\n".join(
            f"- Not in this run: [{page}]({page}.md), {why}" for page, why in ELSEWHERE.items()
        ),
        steps="\n".join(_row(step, results[step.name]) for step in steps),
    )


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


def _row(step: Step, result: Mapping[str, Any]) -> str:
    settings = [f"{name}={value}" for name, value in step.settings.items()]
    settings += [step.only] if step.only else []
    ended = "passed"
    if result["code"]:
        what = "measured, a check failed" if result["measured"] else "**failed**"
        ended = f"{what} (exit code {result['code']})"
    cells = [
        step.name, f"[{step.page}]({step.page}.md)", ", ".join(settings), ended,
        f"{step.minutes:.0f}",
        f"{datetime.fromtimestamp(result['began'], timezone.utc):%d %H:%M}",
        f"{result['seconds'] / 60:.1f}", str(result["tries"]), f"{result['busy']:.0%}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"
