"""Where benchmark figures go: `docs/benchmarks/<name>.json` and a table beside it.

Each file names the machine, the commit and the command, so that a number in the docs can be traced
and measured again.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks import summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"


def write_report(
    name: str, *, title: str, command: str, rows: Sequence[Mapping[str, Any]], notes: str,
    series: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write the figures as JSON and as a Markdown table; `series` is what a picture shows."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    where = machine() | {"commit": commit(), "command": command}
    document = {"title": title, "notes": notes.strip(), "run": where, "rows": list(rows)}
    document |= {"series": series} if series else {}
    (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    columns = list(rows[0])
    lines = [
        f"# {title}",
        "",
        notes.strip(),
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(_cell(row.get(c)) for c in columns) + " |" for row in rows),
        "",
        ", ".join(f"{key}: {value}" for key, value in where.items()),
    ]
    (FOLDER / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    summary.write(FOLDER)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit that was measured; `+` when the tree had changes."""
    here = FOLDER.parents[1]
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or "unknown"


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
