"""Requests as the Java side sends them when they are long: rows as packed columns."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEASURES = ("records", "bytes", "seconds", "offsets")


def column(numbers: Iterable[float], dtype: str) -> str:
    """Base64 of numbers."""
    return base64.b64encode(np.array(list(numbers), dtype).tobytes()).decode()


def packed(request: dict[str, Any]) -> dict[str, Any]:
    """The same request with `ranges` and `observed` as columns."""
    ranges, reports = request["ranges"], request.get("observed") or []
    topics, topic = _places([r["topic"] for r in ranges])
    asked = {
        "topics": topics,
        "topic": topic,
        "partition": column((r["partition"] for r in ranges), "<i4"),
        "start": column((r["start"] for r in ranges), "<i8"),
        "end": column((r["end"] for r in ranges), "<i8"),
    }
    topics, topic = _places([o["topic"] for o in reports])
    executors, executor = _places([o["executor"] or "" for o in reports])
    observed = {
        "topics": topics,
        "executors": executors,
        "topic": topic,
        "partition": column((o["partition"] for o in reports), "<i4"),
        "executor": executor,
    }
    for name in MEASURES:
        values = (np.nan if o.get(name) is None else o[name] for o in reports)
        observed[name] = column(values, "<f8")
    return {**request, "ranges": asked, "observed": observed}


def _places(names: Sequence[str]) -> tuple[list[str], str]:
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return list(place), column((place[name] for name in names), "<i4")
