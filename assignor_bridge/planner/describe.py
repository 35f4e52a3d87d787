"""A plan in words: what the log, the CLI and a failing test print."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignor_bridge.model import Plan, Task

#: Tasks and ranges a task that are listed; the rest is counted.
_TASKS, _RANGES = 40, 4


def describe(plan: Plan) -> str:
    """Say why the plan is so, and list its tasks."""
    lines = [*plan.reasons]
    width = max((len(_where(task)) for task in plan.tasks[:_TASKS]), default=0)
    lines += [f"  {_where(task):{width}}  {_what(task)}" for task in plan.tasks[:_TASKS]]
    if len(plan.tasks) > _TASKS:
        lines.append(f"  and {len(plan.tasks) - _TASKS} more tasks")
    return "\n".join(lines)


def _where(task: Task) -> str:
    place = "anywhere" if task.executor is None else f"executor {task.executor}"
    return f"{place} slot {task.slot}"


def _what(task: Task) -> str:
    listed = " ".join(str(r) for r in task.ranges[:_RANGES])
    more = f" and {len(task.ranges) - _RANGES} more" if len(task.ranges) > _RANGES else ""
    standbys = f", then executor {', '.join(task.standbys)}" if task.standbys else ""
    return f"{task.size:>12,} offsets: {listed}{more}{standbys}"
