"""Parse Spark's `StreamingQueryProgress` into plain data.

The JSON may be of any query; sources other than Kafka only add to the number of rows.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from assignor_bridge.model import MAX_OFFSET, Partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    #: Offset by topic and partition.
    Offsets = Mapping[Partition, int]

#: Prefix of the metrics of the planner and the shared reader.
PREFIX = "assignor."


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The progress of one Kafka source in one batch."""

    #: Index among the query's sources.
    index: int
    #: Start offsets of the batch; empty for a query's first batch, because Spark omits them.
    reported_start: Offsets
    #: End offsets of the batch.
    end: Offsets
    #: End offsets of the log when the batch was planned; empty if Spark did not report them.
    latest: Offsets
    #: Metrics that the source reported, by name.
    metrics: Mapping[str, str]
    rows: int
    #: End offsets of the log after the batch, read from the brokers and added by the exporter.
    log_ends: Offsets = field(default_factory=dict)

    @property
    def start(self) -> Offsets:
        """The start offsets of the batch; empty if unknown.

        If Spark does not report them, they are 0 if the rows read equal the sum of the end offsets.
        """
        if not self.reported_start and sum(self.end.values()) == self.rows:
            return dict.fromkeys(self.end, 0)
        return self.reported_start

    @property
    def last_log_ends(self) -> Offsets:
        """End offsets of the log: after the batch if known, else when the batch was planned."""
        return self.log_ends or self.latest

    @property
    def unread_after(self) -> dict[Partition, int]:
        """Unread offsets after the batch, by partition; empty if not measured."""
        batch_ends, log_ends = self.end.items(), self.log_ends
        return {tp: max(0, log_ends[tp] - end) for tp, end in batch_ends if tp in log_ends}

    @property
    def lag(self) -> Offsets:
        """Unread offsets by partition: after the batch if measured, else at its start.

        Partitions with unknown lag are omitted, for example if a batch ran again after a crash.
        """
        return self.unread_after or (self.unread_at_start if self.latest else {})

    @property
    def held_back(self) -> dict[Partition, int]:
        """Offsets that a limit left for later batches, by partition, if known."""
        batch_ends, latest = self.end.items(), self.latest
        return {tp: max(0, latest[tp] - end) for tp, end in batch_ends if tp in latest}

    @property
    def unread_at_start(self) -> dict[Partition, int]:
        """Unread offsets at the start, or those read if `latest` is empty; {} if `start` is."""
        latest, start = self.latest or self.end, self.start
        return {tp: max(0, end - start.get(tp, 0)) for tp, end in latest.items()} if start else {}

    @property
    def read_offsets(self) -> dict[Partition, int]:
        """Offsets that the batch read, by partition; empty if unknown."""
        start = self.start
        return {tp: end - start.get(tp, 0) for tp, end in self.end.items()} if start else {}

    @property
    def has_data(self) -> bool:
        """Whether the batch read data from this source: by offsets or, without a start, by rows."""
        return any(self.read_offsets.values()) if self.reported_start else self.rows > 0

    def get_number(self, name: str) -> float | None:
        """Return an `assignor.*` metric as a number; None if it is missing or not finite."""
        try:
            number = float(self.metrics[PREFIX + name])
        except (KeyError, ValueError):
            return None
        return number if math.isfinite(number) else None


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A progress event of a query."""

    query_id: str
    run_id: str
    name: str | None
    batch: int
    #: Start of the trigger, in seconds since 1970.
    timestamp_s: float
    rows: int
    #: In rows per second.
    input_rate: float | None
    processing_rate: float | None
    #: Seconds by phase, with Spark's phase names.
    durations_s: Mapping[str, float]
    #: Event-time watermark in seconds since 1970; None if there is none.
    watermark_s: float | None
    state_rows: int
    state_bytes: int
    sources: tuple[SourceProgress, ...]

    @property
    def label(self) -> str:
        """The name of the query, or its ID if it has no name."""
        return self.name or self.query_id

    @property
    def seconds(self) -> float:
        """Duration from the trigger to the commit; 0 if unknown."""
        return self.durations_s.get("triggerExecution", 0.0)

    @property
    def has_data(self) -> bool:
        """Whether the batch has data; Spark also runs batches that only advance a watermark."""
        return self.rows > 0 or any(source.has_data for source in self.sources)


def parse_progress(data: Mapping[str, Any]) -> BatchProgress:
    """Parse a progress event; raise an exception of any standard type if it is invalid."""
    states = data.get("stateOperators") or ()
    return BatchProgress(
        query_id=str(data["id"]),
        run_id=str(data["runId"]),
        name=_parse_name(data.get("name")),
        batch=int(data["batchId"]),
        timestamp_s=parse_time_s(data["timestamp"]),
        rows=int(data.get("numInputRows") or 0),
        input_rate=data.get("inputRowsPerSecond"),
        processing_rate=data.get("processedRowsPerSecond"),
        durations_s={name: ms / 1000 for name, ms in (data.get("durationMs") or {}).items()},
        watermark_s=_parse_watermark(data.get("eventTime") or {}),
        state_rows=sum(int(state.get("numRowsTotal") or 0) for state in states),
        state_bytes=sum(int(state.get("memoryUsedBytes") or 0) for state in states),
        sources=tuple(
            source
            for index, source_data in enumerate(data["sources"])
            if (source := _parse_source(index, source_data)) is not None
        ),
    )


def _parse_name(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("the name of the query is not a string")
    return value or None


def _parse_source(index: int, data: Mapping[str, Any]) -> SourceProgress | None:
    """Parse one source; return None if it is not a Kafka source."""
    end = parse_offsets(data.get("endOffset"))
    if end is None:
        return None
    return SourceProgress(
        index=index,
        reported_start=parse_offsets(data.get("startOffset")) or {},
        end=end,
        latest=parse_offsets(data.get("latestOffset")) or {},
        metrics={key: str(value) for key, value in (data.get("metrics") or {}).items()},
        rows=int(data.get("numInputRows") or 0),
        log_ends=parse_offsets(data.get("logEndOffset")) or {},
    )


def parse_offsets(value: Any) -> dict[Partition, int] | None:
    """Flatten `{topic: {partition: offset}}` or its JSON text; return None for anything else."""
    try:
        topics = json.loads(value) if isinstance(value, str) else value
        offset_by_partition = {
            Partition(str(topic), int(number)): int(offset)
            for topic, offsets in topics.items()
            for number, offset in offsets.items()
        }
    except (AttributeError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None
    is_valid = all(abs(offset) <= MAX_OFFSET for offset in offset_by_partition.values())
    return offset_by_partition if is_valid else None


def _parse_watermark(event_time: Mapping[str, str]) -> float | None:
    """Return the watermark; None if it is missing, not set (1970), or after the year 9999."""
    text = event_time.get("watermark")
    try:
        return (parse_time_s(text) or None) if text else None
    except ValueError:
        return None


def parse_time_s(text: str) -> float:
    """Parse a time of Spark's events into seconds since 1970."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    return moment.replace(tzinfo=timezone.utc).timestamp()
