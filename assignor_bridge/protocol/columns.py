"""Packed columns to and from arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.admission.lag import Times
from assignor_bridge.errors import OptionError
from assignor_bridge.planner.batch import Observed, coded, lay_out
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
    from assignor_bridge.planner.batch import Batch, Floats, Ints, Names
    from assignor_bridge.planner.plan import Outcome
    from assignor_bridge.protocol.messages import AdmitBatch, BatchRequest


def unpack_batch(facts: BatchRequest, options: PlannerOptions) -> Batch:
    """Return the batch of a request; raises `OptionError` for facts that cannot be."""
    to_plan = facts if isinstance(facts, PlanBatch) else None
    return lay_out(
        *unpack_ranges(facts.ranges),
        messages.to_model_executors(facts.executors),
        options,
        unpack_reports(facts.observed),
        facts.parallelism,
        messages.to_model_allocation(to_plan.allocation) if to_plan else None,
        unpack_racks(facts.racks, facts.ranges),
        facts.stream,
        to_plan.partitions if to_plan else None,
    )


def unpack_ranges(ranges: PackedRanges) -> tuple[Names, Ints, Ints, Ints]:
    """Return topics, partitions, first offsets and end offsets.

    Raises OptionError when the columns do not fit together.
    """
    columns = _Columns(ranges, "ranges")
    return (
        columns.names("topics", "topic"),
        columns.ints("partition", 4),
        columns.ints("start", 8),
        columns.ints("end", 8),
    )


def unpack_racks(racks: PackedRacks | None, ranges: PackedRanges) -> Replicas | None:
    """Return the racks of ranges; raises `OptionError` as `unpack_ranges` does."""
    if racks is None:
        return None
    code = _Columns(racks, "racks", len(ranges.partition) // 4).ints("range", 4)
    if len(code) and not -1 <= code.min() <= code.max() < len(racks.sets):
        worst = code.min() if code.min() < -1 else code.max()
        raise OptionError(
            f"racks.range holds {worst}: a place in 'sets', of {len(racks.sets)}, or -1 is expected"
        )
    return Replicas.of(racks.sets, code)


def unpack_reports(reports: PackedReports) -> Observed:
    """Return what readers observed; raises `OptionError` as `unpack_ranges` does."""
    columns = _Columns(reports, "observed")
    return Observed.of(
        columns.names("topics", "topic"),
        columns.ints("partition", 4),
        columns.names("executors", "executor"),
        *(columns.numbers(name, "<f8") for name in ("records", "bytes", "seconds", "offsets")),
    )


def unpack_times(request: AdmitBatch) -> Times:
    """Return the times of a request's ranges, in the order of its batch: by topic and partition.

    Raises OptionError when there are none, or the columns do not fit the ranges.
    """
    given = request.times
    if given is None:
        raise OptionError("the request has no times of records, which the options need")
    (_, topic), partition, _, _ = unpack_ranges(request.ranges)
    order = np.lexsort((partition, topic))
    columns = _Columns(given, "times", len(order))
    stamp = columns.ints("stamp", 8)[order]
    if given.at is None:
        return Times(given.now_ms, stamp)
    at = columns.ints("at", 8)[order]
    return Times(given.now_ms, stamp, given.look_ups, given.asked_ms, at)


def pack_tasks(outcome: Outcome) -> PackedTasks:
    """Return the tasks of a plan."""
    batch, tasks = outcome.batch, outcome.tasks
    pieces = tasks.pieces
    return PackedTasks(
        executors=[e.id for e in batch.executors],
        topics=list(batch.topics),
        executor=_packed(tasks.executor, "<i4"),
        slot=_packed(tasks.number, "<i4"),
        ranges=_packed(np.bincount(tasks.task, minlength=len(tasks)), "<i4"),
        topic=_packed(batch.topic[pieces.row], "<i4"),
        partition=_packed(batch.partition[pieces.row], "<i4"),
        start=_packed(pieces.start, "<i8"),
        end=_packed(pieces.end, "<i8"),
        standbys=dict(outcome.standbys),
    )


def pack_ranges(
    topics: tuple[str, ...], topic: Ints, partition: Ints, start: Ints, end: Ints
) -> PackedRanges:
    """Return ranges."""
    return PackedRanges(
        [*topics],
        _packed(topic, "<i4"),
        _packed(partition, "<i4"),
        _packed(start, "<i8"),
        _packed(end, "<i8"),
    )


def _packed(numbers: Ints, dtype: str) -> bytes:
    return numbers.astype(dtype).tobytes()


class _Columns:
    """Reads columns, which must be of one length."""

    def __init__(
        self,
        columns: PackedRanges | PackedReports | PackedRacks | messages.PackedTimes,
        where: str,
        rows: int | None = None,
    ) -> None:
        self._columns = columns
        self._where = where
        self._rows = rows

    def ints(self, name: str, size: int) -> Ints:
        return self.numbers(name, f"<i{size}").astype(np.int64)

    def numbers(self, name: str, dtype: str) -> Floats:
        where = f"{self._where}.{name}"
        try:
            numbers = np.frombuffer(getattr(self._columns, name), dtype)
        except ValueError:
            expected = f"{np.dtype(dtype).itemsize} bytes a number"
            raise OptionError(f"{where} ends within a number: {expected} are expected") from None
        if self._rows is None:
            self._rows = len(numbers)
        if len(numbers) != self._rows:
            raise OptionError(
                f"{where} holds {len(numbers)} numbers: as many as in the other columns, "
                f"{self._rows}, are expected"
            )
        return numbers

    def names(self, listed: str, name: str) -> Names:
        """Return the names that any cell has, sorted, and each cell's place in them."""
        given: list[str] = getattr(self._columns, listed)
        places = self.ints(name, 4)
        if len(places) and not 0 <= places.min() <= places.max() < len(given):
            worst = places.min() if places.min() < 0 else places.max()
            raise OptionError(
                f"{self._where}.{name} holds {worst}: a place in {listed!r}, "
                f"of {len(given)}, is expected"
            )
        used = np.flatnonzero(np.bincount(places)).tolist()
        distinct, code = coded([given[place] for place in used])
        codes = np.zeros(len(given), np.int64)
        codes[used] = code
        return distinct, codes[places]
