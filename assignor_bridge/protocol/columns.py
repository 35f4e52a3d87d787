"""Convert between the packed columns of messages and NumPy arrays."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.admission.batch_inputs import RecordTimes
from assignor_bridge.errors import OptionError
from assignor_bridge.planner.batch import ReadReports, build_batch, encode_names
from assignor_bridge.planner.racks import Replicas
from assignor_bridge.protocol import messages
from assignor_bridge.protocol.messages import (
    PackedRacks,
    PackedRanges,
    PackedReports,
    PackedTasks,
    PlanBatch,
)

if TYPE_CHECKING:
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch, Names
    from assignor_bridge.planner.plan import PlannedBatch
    from assignor_bridge.protocol.messages import AdmitBatch, BatchRequest


def unpack_batch(request: BatchRequest, options: PlannerOptions) -> MicroBatch:
    """Build the batch that a request describes; raise OptionError if the request is invalid."""
    plan_request = request if isinstance(request, PlanBatch) else None
    return build_batch(
        *unpack_ranges(request.ranges),
        messages.to_model_executors(request.executors),
        options=options,
        reports=unpack_reports(request.observed),
        parallelism=request.parallelism,
        allocation=messages.to_model_allocation(plan_request.allocation) if plan_request else None,
        replicas=unpack_racks(request.racks, request.ranges),
        stream=request.stream,
        partitions=plan_request.partitions if plan_request else None,
    )


def unpack_ranges(ranges: PackedRanges) -> tuple[Names, Ints, Ints, Ints]:
    """Return topics, partitions, starts and ends; raise OptionError for inconsistent columns."""
    reader = _ColumnReader(ranges, "ranges")
    return (
        reader.read_names("topics", "topic"),
        reader.read_integers("partition", 4),
        reader.read_integers("start", 8),
        reader.read_integers("end", 8),
    )


def unpack_racks(racks: PackedRacks | None, ranges: PackedRanges) -> Replicas | None:
    """Return each range's replica racks, None if not sent; raise OptionError if inconsistent."""
    if racks is None:
        return None
    set_index = _ColumnReader(racks, "racks", len(ranges.partition) // 4).read_integers("range", 4)
    if len(set_index) and not -1 <= set_index.min() <= set_index.max() < len(racks.sets):
        invalid_index = set_index.min() if set_index.min() < -1 else set_index.max()
        raise OptionError(
            f"racks.range has {invalid_index}: "
            f"expected -1 or an index in 'sets', which has length {len(racks.sets)}"
        )
    return Replicas.of(racks.sets, set_index)


def unpack_reports(reports: PackedReports) -> ReadReports:
    """Return the readers' reports; raise OptionError if the columns are inconsistent."""
    reader = _ColumnReader(reports, "observed")
    number_fields = ["records", "bytes", "seconds", "offsets"]
    if reports.cold_seconds:
        number_fields.append("cold_seconds")
    return ReadReports.of(
        reader.read_names("topics", "topic"),
        reader.read_integers("partition", 4),
        reader.read_names("executors", "executor"),
        *(reader.read_numbers(name, "<f8") for name in number_fields),
    )


def unpack_times(request: AdmitBatch) -> RecordTimes:
    """Return times sorted by topic and partition; raise OptionError if missing or incomplete."""
    times = request.times
    if times is None:
        raise OptionError("the request has no record times, but the options require them")
    (_, topic), partition, _, _ = unpack_ranges(request.ranges)
    order = np.lexsort((partition, topic))
    reader = _ColumnReader(times, "times", len(order))
    stamp_ms = reader.read_integers("stamp", 8)[order]
    if times.at is None:
        return RecordTimes(times.now_ms, stamp_ms)
    first_offset = reader.read_integers("at", 8)[order]
    return RecordTimes(times.now_ms, stamp_ms, times.look_ups, times.asked_ms, first_offset)


def pack_tasks(planned_batch: PlannedBatch) -> PackedTasks:
    """Pack a plan's tasks for a message."""
    batch, tasks = planned_batch.batch, planned_batch.tasks
    pieces, tail_executors = tasks.pieces, tasks.tail_executors
    return PackedTasks(
        executors=[e.id for e in batch.executors],
        topics=list(batch.topics),
        executor=_pack_numbers(tasks.executor, "<i4"),
        slot=_pack_numbers(tasks.consumer, "<i4"),
        ranges=_pack_numbers(np.bincount(tasks.task, minlength=len(tasks)), "<i4"),
        topic=_pack_numbers(batch.topic[pieces.row], "<i4"),
        partition=_pack_numbers(batch.partition[pieces.row], "<i4"),
        start=_pack_numbers(pieces.start, "<i8"),
        end=_pack_numbers(pieces.end, "<i8"),
        standbys=dict(planned_batch.standbys),
        tail_seconds=np.array(tasks.tail_seconds, "<f8").tobytes(),
        tail_executors=np.array([*map(len, tail_executors)], "<i4").tobytes(),
        tail_executor=np.array([*chain.from_iterable(tail_executors)], "<i4").tobytes(),
    )


def pack_ranges(
    topics: tuple[str, ...], topic: Ints, partition: Ints, start: Ints, end: Ints
) -> PackedRanges:
    """Pack ranges for a message."""
    return PackedRanges(
        [*topics],
        _pack_numbers(topic, "<i4"),
        _pack_numbers(partition, "<i4"),
        _pack_numbers(start, "<i8"),
        _pack_numbers(end, "<i8"),
    )


def _pack_numbers(numbers: Ints, dtype: str) -> bytes:
    return numbers.astype(dtype).tobytes()


class _ColumnReader:
    """Reads the columns of a message and checks that they have the same length."""

    def __init__(
        self,
        columns: PackedRanges | PackedReports | PackedRacks | messages.PackedTimes,
        name: str,
        row_count: int | None = None,
    ) -> None:
        self._columns = columns
        self._name = name
        self._row_count = row_count

    def read_integers(self, name: str, number_bytes: int) -> Ints:
        return self.read_numbers(name, f"<i{number_bytes}").astype(np.int64)

    def read_numbers(self, name: str, dtype: str) -> Floats:
        path = f"{self._name}.{name}"
        try:
            numbers = np.frombuffer(getattr(self._columns, name), dtype)
        except ValueError:
            expected = f"{np.dtype(dtype).itemsize} bytes per number"
            raise OptionError(f"{path} ends within a number: expected {expected}") from None
        if self._row_count is None:
            self._row_count = len(numbers)
        if len(numbers) != self._row_count:
            raise OptionError(
                f"{path} has length {len(numbers)}: expected {self._row_count}, one number per row"
            )
        return numbers

    def read_names(self, list_field: str, index_field: str) -> Names:
        """Return a column's sorted distinct names, and the index of each row's name in them."""
        listed_names: list[str] = getattr(self._columns, list_field)
        indices = self.read_integers(index_field, 4)
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(listed_names):
            invalid_index = indices.min() if indices.min() < 0 else indices.max()
            raise OptionError(
                f"{self._name}.{index_field} has {invalid_index}: "
                f"expected an index in {list_field!r}, which has length {len(listed_names)}"
            )
        used_indices = np.flatnonzero(np.bincount(indices)).tolist()
        distinct_names, used_codes = encode_names([listed_names[index] for index in used_indices])
        code_by_index = np.zeros(len(listed_names), np.int64)
        code_by_index[used_indices] = used_codes
        return distinct_names, code_by_index[indices]
