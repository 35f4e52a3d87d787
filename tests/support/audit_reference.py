"""Write the table of findings in docs/audit.md: `python -m tests.support.audit_reference FILE`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from streaming.audit.findings import KINDS

_ROWS = re.compile(r"(?<=\|---\|---\|---\|---\|\n)(?:.*\n)*?(?=\n)")


def format_rows() -> str:
    return "".join(
        f"| `{name}` | {kind.verdict} | {kind.meaning} | {kind.cure} |\n"
        for name, kind in KINDS.items()
    )


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(_ROWS.sub(lambda _: format_rows(), page.read_text("utf-8"), count=1), "utf-8")
