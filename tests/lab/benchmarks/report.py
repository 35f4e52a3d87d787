"""Where benchmark figures go: `docs/benchmarks/<name>.json`, and the page of all results.

Each file names the machine, the commit and the command, so that a number in the docs can be traced
and measured again.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignor_bridge.ivy import find_tool
from tests.java.oracle import KAFKA
from tests.lab.benchmarks import results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "benchmarks"
#: Where this process writes its pages; `one_run` gives each of its steps a folder.
FOLDER = Path(os.environ.get("ASSIGNOR_BENCH_FOLDER", DOCS))
#: What benchmarks write themselves: it says nothing about what was measured.
_WRITTEN = (":!docs/benchmarks", ":!docs/benchmark-results.md", ":!docs/images")


def write_report(
    name: str, *, title: str, command: str, rows: Sequence[Mapping[str, Any]], notes: str,
    series: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write the figures as JSON; `series` is what a picture shows."""
    where = machine() | {"commit": commit(), "command": command}
    document = {"title": title, "notes": notes.strip(), "run": where, "rows": list(rows)}
    write_document(FOLDER, name, document | ({"series": series} if series else {}))
    if FOLDER == DOCS:
        results.write(DOCS)


def write_document(folder: Path, name: str, document: Mapping[str, Any]) -> None:
    """Write what a benchmark measured into a folder, as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=2)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def is_written(whole: bool) -> bool:
    """Whether a page that takes long is written: a part of it only to where it is joined."""
    return whole or FOLDER != DOCS


def machine() -> dict[str, Any]:
    """What the figures were measured on, and with."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "cores": os.cpu_count(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "Java": java_version(),
        "Spark": importlib.metadata.version("pyspark"),
        "Delta": importlib.metadata.version("delta-spark"),
        "Kafka": KAFKA,
    }


def java_version() -> str:
    """Return the version of the JVM that Spark is started with."""
    command = [find_tool("java"), "-version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return told.stderr.split('"')[1]


def commit(root: Path = ROOT) -> str:
    """The commit that was measured; `+` when the tree had changes."""
    told = _git(root, "describe", "--always", "--exclude=*").strip()
    return (told or "unknown") + ("+" if changes(root) else "")


def changes(root: Path = ROOT) -> list[str]:
    """Files that differ from the commit, but what benchmarks write."""
    told = _git(root, "status", "--porcelain", "--", ".", *_WRITTEN)
    return [line[3:] for line in told.splitlines()]


def _git(root: Path, *words: str) -> str:
    told = subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=False
    )  # fmt: skip
    return told.stdout
