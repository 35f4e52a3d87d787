"""What a query's progress says, as plain data.

Reads Spark's `StreamingQueryProgress` as JSON, from a listener or from a log, of any query: sources
that are not Kafka's count rows only.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from assignor_bridge.model import MOST_OFFSET, Partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    #: Offset by topic and partition.
    Offsets = Mapping[Partition, int]

#: Of the names of our reader's and planner's metrics.
PREFIX = "assignor."


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One Kafka source in one batch."""

    #: Its place among the query's sources.
    index: int
    #: Where the batch began and ended, and where the log ended then.
    start: Offsets
    end: Offsets
    latest: Offsets
    #: The source's own metrics, by name.
    metrics: Mapping[str, str]
    rows: int
    #: Where the logs ended after the batch, by the brokers: our exporter adds it.
    log_ends: Offsets = field(default_factory=dict)

    @property
    def begin(self) -> Offsets:
        """Where the batch began: Spark does not tell where the first one of a query does.

        That is 0 when as many rows were read as there are offsets before the end; else unknown.
        """
        if not self.start and sum(self.end.values()) == self.rows:
            return dict.fromkeys(self.end, 0)
        return self.start

    @property
    def ends(self) -> Offsets:
        """Where the logs end: by the brokers, else when the batch was planned."""
        return self.log_ends or self.latest

    @property
    def unread(self) -> dict[Partition, int]:
        """Unread offsets after the batch by partition; empty if they were not measured."""
        ends = self.end.items()
        return {tp: max(0, self.log_ends[tp] - end) for tp, end in ends if tp in self.log_ends}

    @property
    def lag(self) -> Offsets:
        """Unread offsets by partition: after the batch if they were measured, else at its begin.

        Partitions are left out if it is unknown, as for a batch that is run again after a crash.
        """
        return self.unread or (self.waiting if self.latest else {})

    @property
    def held_back(self) -> dict[Partition, int]:
        """Offsets that a limit left for later batches; unknown are left out."""
        ends = self.end.items()
        return {tp: max(0, self.latest[tp] - end) for tp, end in ends if tp in self.latest}

    @property
    def waiting(self) -> dict[Partition, int]:
        """Offsets that were unread when the batch began, by partition; empty when unknown."""
        latest, begin = self.latest or self.end, self.begin
        return {tp: max(0, end - begin.get(tp, 0)) for tp, end in latest.items()} if begin else {}

    @property
    def read(self) -> dict[Partition, int]:
        """Offsets that the batch read, by partition; empty when unknown."""
        begin = self.begin
        return {tp: end - begin.get(tp, 0) for tp, end in self.end.items()} if begin else {}

    @property
    def has_data(self) -> bool:
        """Whether the batch covered any offset of this source."""
        return any(self.read.values()) if self.start else self.rows > 0

    def number(self, name: str) -> float | None:
        """Return one `assignor.*` metric as a number; None when it is missing or not finite."""
        try:
            number = float(self.metrics[PREFIX + name])
        except (KeyError, ValueError):
            return None
        return number if math.isfinite(number) else None


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One progress event of a query."""

    query_id: str
    run_id: str
    #: None when the user gave none.
    name: str | None
    batch: int
    #: When the trigger began, in seconds since 1970.
    timestamp_s: float
    rows: int
    input_rate: float | None
    processing_rate: float | None
    #: Seconds by phase, as Spark names them.
    durations_s: Mapping[str, float]
    watermark_s: float | None
    state_rows: int
    state_bytes: int
    sources: tuple[SourceProgress, ...]

    @property
    def label(self) -> str:
        """The name that people know the query by."""
        return self.name or self.query_id

    @property
    def seconds(self) -> float:
        """From trigger to commit."""
        return self.durations_s.get("triggerExecution", 0.0)

    @property
    def has_data(self) -> bool:
        """Whether the batch read anything: idle progress events tell the last batch again."""
        return self.rows > 0 or any(source.has_data for source in self.sources)


def read_progress(data: Mapping[str, Any]) -> BatchProgress:
    """Read one progress; raises KeyError, TypeError or ValueError for anything else."""
    states = data.get("stateOperators") or ()
    return BatchProgress(
        query_id=str(data["id"]),
        run_id=str(data["runId"]),
        name=_name(data.get("name")),
        batch=int(data["batchId"]),
        timestamp_s=parse_time_s(data["timestamp"]),
        rows=int(data.get("numInputRows") or 0),
        input_rate=data.get("inputRowsPerSecond"),
        processing_rate=data.get("processedRowsPerSecond"),
        durations_s={name: ms / 1000 for name, ms in (data.get("durationMs") or {}).items()},
        watermark_s=_watermark(data.get("eventTime") or {}),
        state_rows=sum(int(state.get("numRowsTotal") or 0) for state in states),
        state_bytes=sum(int(state.get("memoryUsedBytes") or 0) for state in states),
        sources=tuple(
            source
            for index, each in enumerate(data["sources"])
            if (source := _source(index, each)) is not None
        ),
    )


def _name(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("a query's name is no text")
    return value or None


def _source(index: int, data: Mapping[str, Any]) -> SourceProgress | None:
    """Read one source; None when its offsets are not those of Kafka's."""
    end = read_offsets(data.get("endOffset"))
    if end is None:
        return None
    return SourceProgress(
        index=index,
        start=read_offsets(data.get("startOffset")) or {},
        end=end,
        latest=read_offsets(data.get("latestOffset")) or {},
        metrics={key: str(value) for key, value in (data.get("metrics") or {}).items()},
        rows=int(data.get("numInputRows") or 0),
        log_ends=read_offsets(data.get("logEndOffset")) or {},
    )


def read_offsets(value: Any) -> dict[Partition, int] | None:
    """Flatten `{topic: {partition: offset}}`, which may be JSON text; None for anything else."""
    try:
        topics = json.loads(value) if isinstance(value, str) else value
        found = {
            Partition(str(topic), int(number)): int(offset)
            for topic, offsets in topics.items()
            for number, offset in offsets.items()
        }
    except (AttributeError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None
    return found if all(abs(offset) <= MOST_OFFSET for offset in found.values()) else None


def _watermark(event_time: Mapping[str, str]) -> float | None:
    """Return the watermark; None as long as there is none (Spark then says 1970).

    None, too, for one after the year 9999: a single record with such a time makes it.
    """
    text = event_time.get("watermark")
    try:
        return (parse_time_s(text) or None) if text else None
    except ValueError:
        return None


def parse_time_s(text: str) -> float:
    """Return the seconds since 1970 of a time as Spark's events tell it."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    return moment.replace(tzinfo=timezone.utc).timestamp()
