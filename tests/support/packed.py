"""Convert between rows and the packed columns of messages between Java and the planner."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEASURES = ("records", "bytes", "seconds", "offsets", "coldSeconds")


def encode_column(numbers: Iterable[float], dtype: str) -> str:
    return base64.b64encode(np.array(list(numbers), dtype).tobytes()).decode()


def decode_column(text: str, dtype: str) -> list[int]:
    return np.frombuffer(base64.b64decode(text), dtype).tolist()


def pack_snapshot(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return a snapshot with `ranges` and `observed` as columns."""
    ranges, reports = snapshot["ranges"], snapshot.get("observed") or []
    observed = pack_ranges(reports, offsets=False)
    executors, executor = _pack_names([o["executor"] or "" for o in reports])
    observed |= {"executors": executors, "executor": executor}
    for name in MEASURES:
        values = (np.nan if o.get(name) is None else o[name] for o in reports)
        observed[name] = encode_column(values, "<f8")
    racks = {"racks": pack_racks(ranges)} if any("racks" in row for row in ranges) else {}
    return {**snapshot, "ranges": pack_ranges(ranges), "observed": observed, **racks}


def pack_racks(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    racks_by_range = [tuple(row.get("racks") or ()) for row in rows]
    sets = list(dict.fromkeys(filter(None, racks_by_range)))
    return {
        "sets": [list(racks) for racks in sets],
        "range": encode_column(
            (sets.index(racks) if racks else -1 for racks in racks_by_range), "<i4"
        ),
    }


def pack_ranges(rows: Sequence[dict[str, Any]], offsets: bool = True) -> dict[str, Any]:
    topics, topic = _pack_names([row["topic"] for row in rows])
    columns = {
        "topics": topics,
        "topic": topic,
        "partition": encode_column((row["partition"] for row in rows), "<i4"),
    }
    for name in ("start", "end") if offsets else ():
        columns[name] = encode_column((row[name] for row in rows), "<i8")
    return columns


def unpack_rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = {"partition": "<i4", "start": "<i8", "end": "<i8", **dict.fromkeys(MEASURES, "<f8")}
    fields = {
        name: decode_column(columns[name], kind) for name, kind in kinds.items() if name in columns
    }
    for name in ("topic", "executor"):
        if name in columns:
            listed = columns[f"{name}s"]
            fields[name] = [listed[place] for place in decode_column(columns[name], "<i4")]
    return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]


def pack_task_rows(tasks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    tails = [t["tail"] for t in tasks if "tail" in t]
    names = [t["executor"] for t in tasks if t["executor"] is not None]
    executors = list(dict.fromkeys(names + [name for tail in tails for name in tail["executors"]]))
    place = {name: i for i, name in enumerate(executors)} | {None: -1}
    return {
        "executors": executors,
        "executor": encode_column((place[t["executor"]] for t in tasks), "<i4"),
        "slot": encode_column((t["slot"] for t in tasks), "<i4"),
        "ranges": encode_column((len(t["ranges"]) for t in tasks), "<i4"),
        **pack_ranges([r for t in tasks for r in t["ranges"]]),
        "standbys": {str(i): t["standbys"] for i, t in enumerate(tasks) if t.get("standbys")},
        "tailSeconds": encode_column((tail["seconds"] for tail in tails), "<f8"),
        "tailExecutors": encode_column((len(tail["executors"]) for tail in tails), "<i4"),
        "tailExecutor": encode_column(
            (place[e] for tail in tails for e in tail["executors"]), "<i4"
        ),
    }


def unpack_tasks(columns: dict[str, Any]) -> list[dict[str, Any]]:
    ranges = iter(
        unpack_rows({k: columns[k] for k in ("topics", "topic", "partition", "start", "end")})
    )
    names = [*columns["executors"], None]
    tasks = [
        {"executor": names[executor], "slot": slot, "ranges": [next(ranges) for _ in range(count)]}
        | ({"standbys": columns["standbys"][str(i)]} if str(i) in columns["standbys"] else {})
        for i, (executor, slot, count) in enumerate(
            zip(
                *(decode_column(columns[name], "<i4") for name in ("executor", "slot", "ranges")),
                strict=True,
            )
        )
    ]
    seconds = decode_column(columns["tailSeconds"], "<f8")
    tail_executors = iter(decode_column(columns["tailExecutor"], "<i4"))
    for task, task_s, count in zip(
        tasks[len(tasks) - len(seconds) :],
        seconds,
        decode_column(columns["tailExecutors"], "<i4"),
        strict=True,
    ):
        preferred = [names[next(tail_executors)] for _ in range(count)]
        task["tail"] = {"seconds": task_s, "executors": preferred}
    return tasks


def _pack_names(names: Sequence[str]) -> tuple[list[str], str]:
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return list(place), encode_column((place[name] for name in names), "<i4")
