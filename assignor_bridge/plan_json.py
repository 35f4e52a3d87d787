"""The tasks of a plan as JSON text, written by columns.

A record array has one record a piece, with a field for each bit of text between and in the numbers;
fields are as wide as their longest text and the rest of a field is NUL, which the end result leaves
out (JSON has no NUL). An object for each piece, made and then written, takes three times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from assignor_bridge.planner.batch import Ints
    from assignor_bridge.planner.plan import Outcome

    Texts = NDArray[np.void]

#: The four digits of each number below 10,000, and then the same without leading zeros.
_FOUR_DIGITS = np.array(
    [b"%04d" % n for n in range(10_000)] + [(b"%d" % n).rjust(4, b"\0") for n in range(10_000)],
    "S4",
).view(np.uint32)
_FOUR_DIGITS[10_000] = 0
_ZERO = np.frombuffer(b"0".rjust(4, b"\0"), np.uint32)[0]


def tasks_json(outcome: Outcome) -> bytes:
    """Write the list of tasks: `[{"executor":…,"slot":…,"ranges":[{…},…]},…]`."""
    batch, tasks = outcome.batch, outcome.tasks
    pieces = tasks.pieces
    if not len(pieces):
        return b"[]"
    first = np.append(True, tasks.task[1:] != tasks.task[:-1])
    last = np.append(first[1:], True)
    ranges = _texts(b'{"topic":%s,"partition":' % orjson.dumps(t) for t in batch.topics)
    between = np.where(last, b"}", b"},").view("V2")
    text = _joined(
        _spread(first, _opening(outcome)),
        ranges[batch.topic[pieces.row]],
        _decimal(batch.partition[pieces.row]),
        b',"start":',
        _decimal(pieces.start),
        b',"end":',
        _decimal(pieces.end),
        between,
        _spread(last, _closing(outcome)),
    )
    return b"[%s]" % text.tobytes().translate(None, b"\0")


def _opening(outcome: Outcome) -> Texts:
    """Text of each task before its ranges."""
    batch, tasks = outcome.batch, outcome.tasks
    ids = [*(e.id for e in batch.executors), None]
    executors = _texts(b'{"executor":%s,"slot":' % orjson.dumps(i) for i in ids)
    return _joined(executors[outcome.place], _decimal(tasks.number), b',"ranges":[')


def _closing(outcome: Outcome) -> Texts:
    """Text of each task after its ranges, with the comma before the next one."""
    with_standbys = {
        task: b'],"standbys":%s},' % orjson.dumps(standbys)
        for task, standbys in outcome.standbys.items()
    }
    width = max(map(len, with_standbys.values()), default=3)
    ends = np.full(len(outcome.tasks), b"]},", f"S{width}")
    for task, text in with_standbys.items():
        ends[task] = text
    ends[-1] = ends[-1][:-1]
    return ends.view(f"V{width}")


def _texts(texts: Iterable[bytes]) -> Texts:
    """One field for texts of any length."""
    padded = np.array(list(texts), "S")
    return padded.view(f"V{padded.itemsize}")


def _spread(where: NDArray[np.bool_], texts: Texts) -> Texts:
    """Put one text after the other where the flags say, and nothing elsewhere."""
    field = np.zeros(len(where), texts.dtype)
    field[where] = texts
    return field


def _joined(*fields: Any) -> Texts:
    """Put fields side by side; a text that all records have may be given as bytes."""
    kinds = [f"V{len(f)}" if isinstance(f, bytes) else f.dtype for f in fields]
    count = next(len(f) for f in fields if not isinstance(f, bytes))
    records = np.empty(count, [(str(i), kind) for i, kind in enumerate(kinds)])
    for i, field in enumerate(fields):
        records[str(i)] = np.void(field) if isinstance(field, bytes) else field
    return records.view(f"V{records.itemsize}")


def _decimal(numbers: Ints) -> Texts:
    """Write whole numbers from 0, right-aligned after NULs."""
    groups = (len(str(int(numbers.max(initial=0)))) + 3) // 4
    digits = np.empty((len(numbers), groups), np.uint32)
    rest = numbers
    for group in range(groups - 1, -1, -1):
        before = rest // 10_000
        four = rest - before * 10_000
        four[before == 0] += 10_000
        digits[:, group] = _FOUR_DIGITS[four]
        rest = before
    digits[numbers == 0, -1] = _ZERO
    return digits.view(f"V{4 * groups}")[:, 0]
