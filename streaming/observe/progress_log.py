"""Format and read the metrics log: one line of JSON per batch, and one when a query ends."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import orjson

from assignor_bridge.errors import OptionError
from streaming.observe.query_progress import PREFIX, parse_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from streaming.observe.query_progress import BatchProgress

_MAX_ERROR_CHARS = 500
_NUMBER = re.compile(r"[-+.\deE]+|NaN")


def make_batch_line(progress: BatchProgress, lag_seconds: float | None) -> dict[str, Any]:
    """Return a batch's summary as the fields of a log line; unknown values are omitted."""
    source_lags = [lag for source in progress.sources if (lag := source.lag)]
    held_back = [source.held_back for source in progress.sources if source.latest]
    fields: dict[str, Any] = {
        "timestamp": progress.timestamp_s,
        "event": "batch",
        "query": progress.label,
        "queryId": progress.query_id,
        "runId": progress.run_id,
        "batch": progress.batch,
        "rows": progress.rows,
        "seconds": round(progress.seconds, 3),
        "rowsPerSecond": progress.processing_rate,
        "lag": sum(sum(lag.values()) for lag in source_lags) if source_lags else None,
        "maxLag": max((max(lag.values(), default=0) for lag in source_lags), default=None),
        "maxLagSeconds": None if lag_seconds is None else round(lag_seconds, 3),
        "heldBack": sum(sum(offsets.values()) for offsets in held_back) if held_back else None,
    }
    for source in progress.sources:
        metrics = {name: value for name, value in source.metrics.items() if name.startswith(PREFIX)}
        if metrics:
            fields.setdefault("sources", []).append({"source": source.index, **metrics})
    return {key: value for key, value in fields.items() if value is not None}


def make_end_line(query_id: str, run_id: str, error: str | None) -> dict[str, Any]:
    """Return the fields of the log line for a query that has ended; a long error is cut."""
    fields = {"event": "ended", "queryId": query_id, "runId": run_id}
    if error:
        fields["error"] = error[:_MAX_ERROR_CHARS]
    return fields


def find_error_line(text: str) -> str:
    """Return the first line of a Python traceback's exception, else of the text; "" if it is blank.

    If the traceback is cut off before its exception, return its heading.
    >>> lines = ["E: Traceback (most recent call last):", " File", "ValueError: too big"]
    >>> find_error_line(chr(10).join([*lines, "", chr(9) + "at some.Java"]))
    'ValueError: too big'
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if "Traceback (most recent call last)" in line:
            return next((after for after in lines[number + 1 :] if after[0] not in " \t"), line)
    return lines[0] if lines else ""


def redact_progress(progress: dict[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    """Redact descriptions and textual metrics in place, and return the progress."""
    for part in (progress.get("sink"), *progress.get("sources", ())):
        if isinstance(part, dict):
            if isinstance(part.get("description"), str):
                part["description"] = redact(part["description"])
            for name, value in (part.get("metrics") or {}).items():
                if isinstance(value, str) and not _NUMBER.fullmatch(value):
                    part["metrics"][name] = redact(value)
    return progress


def dump(fields: Mapping[str, Any], progress: Mapping[str, Any] | None = None) -> bytes:
    """Return a line of JSON, with Spark's complete progress if `progress` is given."""
    all_fields = fields if progress is None else {**fields, "progress": progress}
    return orjson.dumps(all_fields, option=orjson.OPT_APPEND_NEWLINE)


def read_batches(path: Path, max_batches: int | None = None) -> list[BatchProgress]:
    """Read the batches with data from a metrics log, or from a file of Spark's progress events.

    The batches are grouped by query. `max_batches` limits each query to its last batches; None
    returns all. Raises OptionError if the file cannot be read or has no batch with data.
    """
    batches_by_query: dict[str, dict[int, BatchProgress]] = defaultdict(dict)
    try:
        with path.open("rb") as lines:
            for line in lines:
                progress = _parse_line(line)
                if progress is not None and progress.has_data:
                    progress_by_batch = batches_by_query[progress.query_id]
                    # If a batch ran again after a crash, the last event is used.
                    progress_by_batch[progress.batch] = progress
                    if max_batches is not None and len(progress_by_batch) > max_batches:
                        del progress_by_batch[next(iter(progress_by_batch))]
    except OSError as error:
        raise OptionError(f"log {path} cannot be read: {error.strerror}") from error
    if not batches_by_query:
        raise OptionError(
            f"log {path} has no progress of a batch with data: give a file written by "
            "metrics.log_file (lines on stderr do not have the progress)"
        )
    return [progress for batches in batches_by_query.values() for progress in batches.values()]


def _parse_line(line: bytes) -> BatchProgress | None:
    """Return the progress in a line; None if the line is incomplete or of another kind."""
    try:
        data = orjson.loads(line)
        return parse_progress(data.get("progress", data))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        return None
