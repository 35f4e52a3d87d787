"""Event-time alignment: no partition is read further than a span beyond the slowest one.

A partition's time is the Kafka timestamp of its first unread record. The horizon is the slowest
partition's time plus the span. Kafka returns the offset of each partition's first record at or
after the horizon, and the batch ends there. Unknown times and times in the future (from a wrong
clock) are not used, so they neither hold other partitions back nor let them run ahead.

Kafka searches the whole log. If the record that it finds was read already (because records are out
of order) or is in the future, it does not limit the next records. Such a partition advances by one
record, then by twice as many each time, while its own time is not beyond the horizon.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.admission.admit import admit
from assignor_bridge.admission.lag import Admission

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignor_bridge.admission.lag import Flags, Ints, Lag, Limits, Memory, RecordTimes

#: Limit of a step; it is longer than any partition.
_MAX_STEP_RECORDS = 2**40
#: Most requests to Kafka per batch; the answer to the last one is used.
_MAX_LOOK_UPS = 2


class Alignment(NamedTuple):
    """Limits of times, in milliseconds."""

    #: Between the slowest partition's time and the end of any other.
    span_ms: int
    #: Beyond the driver's clock; later times are in the future.
    ahead_ms: int


class Aligned(NamedTuple):
    """The largest end of each partition, and by name the next step of those that use steps."""

    end: Ints
    steps: Mapping[tuple[str, int], int]


def align(
    lag: Lag, times: RecordTimes, alignment: Alignment, steps: Mapping[tuple[str, int], int]
) -> Aligned | int:
    """Return the largest end of each partition, or a time for which to request offsets first.

    If Kafka's answer shows that the slowest partition is later than assumed, as after a pause,
    offsets are requested a second time.

    Example: the next record of one partition is from 12:00, that of another from 12:50, and the
    span is 30 minutes, so offsets at 12:30 are requested. For the first partition Kafka returns
    offset 600, where its batch ends; for the second its next record, so it has to wait.
    """
    horizon_ms = _find_horizon(times, alignment)
    if horizon_ms is None:
        return Aligned(lag.latest, {})
    if times.first_offset is None or times.asked_ms is None:
        return horizon_ms
    if horizon_ms > times.asked_ms and times.look_ups < _MAX_LOOK_UPS:
        return horizon_ms
    usable = _find_usable_times(times, alignment)
    return _limit_ends(lag, times, times.first_offset, times.asked_ms, usable, steps)


def find_spread_s(times: RecordTimes, alignment: Alignment) -> float:
    """Return the seconds from the slowest partition's time to the fastest's."""
    usable_ms = times.stamp_ms[_find_usable_times(times, alignment)]
    return float(usable_ms.max() - usable_ms.min()) / 1000 if len(usable_ms) else 0.0


def _find_horizon(times: RecordTimes, alignment: Alignment) -> int | None:
    """Return the time before which records may be read; None if all records may."""
    usable_ms = times.stamp_ms[_find_usable_times(times, alignment)]
    if len(times.stamp_ms) < 2 or not len(usable_ms):
        return None
    horizon_ms = int(usable_ms.min()) + alignment.span_ms
    return horizon_ms if horizon_ms <= times.now_ms + alignment.ahead_ms else None


def _find_usable_times(times: RecordTimes, alignment: Alignment) -> Flags:
    return (times.stamp_ms >= 0) & (times.stamp_ms <= times.now_ms + alignment.ahead_ms)


def _limit_ends(  # noqa: PLR0917
    lag: Lag, times: RecordTimes, first_offset: Ints, horizon_ms: int, usable: Flags,
    steps: Mapping[tuple[str, int], int],
) -> Aligned:  # fmt: skip
    end = np.where(first_offset < 0, lag.latest, np.minimum(first_offset, lag.latest))
    stays = end <= lag.start
    end[stays] = lag.start[stays]
    names, next_steps = lag.names if stays.any() else [], {}
    for i in np.flatnonzero(stays & ~(usable & (times.stamp_ms >= horizon_ms))).tolist():
        step = steps.get(names[i], 1)
        end[i] += min(step, int(lag.size[i]))
        next_steps[names[i]] = min(2 * step, _MAX_STEP_RECORDS)
    if not (end > lag.start).any():  # all times are later than assumed, even after the last request
        slowest = int(np.where(usable, times.stamp_ms, np.iinfo(np.int64).max).argmin())
        end[slowest] += 1
    return Aligned(end, next_steps)


def admit_up_to(lag: Lag, aligned: Aligned, limits: Limits, memory: Memory) -> Admission:
    """Admit up to the aligned ends; waiting partitions keep their place in the order."""
    memory = replace(memory, steps=aligned.steps)
    if (aligned.end == lag.latest).all():
        return admit(lag, limits, memory)
    advances = aligned.end > lag.start
    end = aligned.end.copy()
    advancing = replace(lag.only(advances), latest=end[advances])
    # Batches up to a fixed end have equal sizes only if no partition waits for others.
    admitted = admit(advancing, replace(limits, fixed_end=False), memory)
    end[advances] = admitted.end
    names = lag.only(~advances).names
    waits = {name: memory.waiting[name] for name in names if name in memory.waiting}
    new_memory = replace(admitted.memory, waiting={**waits, **admitted.memory.waiting})
    return Admission(end, admitted.held_back_by or "time", new_memory)
