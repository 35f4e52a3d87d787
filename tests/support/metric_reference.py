"""Print the table of metrics in docs/metrics.md: `python -m tests.support.metric_reference`."""

from __future__ import annotations

from streaming.metrics.names import METRICS


def format_table() -> str:
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.help} |" for m in METRICS.values()
    ]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(format_table(), end="")
