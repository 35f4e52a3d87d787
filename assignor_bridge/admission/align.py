"""Event-time alignment: no partition is read more than a time span beyond the slowest one.

A partition's time is the Kafka timestamp of its first unread record. The horizon is the slowest
partition's time plus the span. Kafka returns the offset of each partition's first record at or
after the horizon, and the batch ends there. Unknown times and times in the future (from a wrong
clock) are not used, so they neither hold other partitions back nor let them run ahead.

Kafka searches the whole log. It may return a record that was already read (if records are out of
order), or the next record if its time is in the future. Neither shows where to end. The partition
then advances by one offset, and by twice as many in each later batch, until it is at the horizon.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.admission.admit import admit
from assignor_bridge.admission.batch_inputs import Admission

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignor_bridge.admission.batch_inputs import Flags, Ints, Lag, Limits, Memory, RecordTimes

_MAX_STEP_OFFSETS = 2**40  # maximum step, so that doubling cannot overflow
_MAX_LOOK_UPS = 2  # per batch; the second answer is used even if the horizon has moved


class Alignment(NamedTuple):
    """Limits on timestamps, in milliseconds."""

    #: Maximum time that other partitions may be read ahead of the slowest partition.
    span_ms: int
    #: Tolerance beyond the driver's clock; later times are in the future.
    max_future_ms: int


class AlignedEnds(NamedTuple):
    """The result of `align`."""

    #: Maximum end offset of each partition.
    end: Ints
    #: Next step of each partition that advances in steps, by topic and number.
    steps: Mapping[tuple[str, int], int]


def align(
    lag: Lag, times: RecordTimes, alignment: Alignment, steps: Mapping[tuple[str, int], int]
) -> AlignedEnds | int:
    """Return the maximum end of each partition, or the time (ms) whose offsets are needed first.

    If Kafka's answer shows that the slowest partition is later than assumed (for example after a
    pause), offsets are requested a second time.

    Example: partition A's next record is from 12:00, partition B's from 12:50, and the span is 30
    minutes, so offsets at 12:30 are requested. Kafka returns offset 600 for A, where A's batch
    ends. For B it returns the next record, so B waits.
    """
    horizon_ms = _find_horizon(times, alignment)
    if horizon_ms is None:
        return AlignedEnds(lag.latest, {})
    if times.first_offset is None or times.asked_ms is None:
        return horizon_ms
    if horizon_ms > times.asked_ms and times.look_ups < _MAX_LOOK_UPS:
        return horizon_ms
    first_offset, is_usable = times.first_offset, _flag_usable_times(times, alignment)
    end = np.where(first_offset < 0, lag.latest, np.minimum(first_offset, lag.latest))
    stamp_ms = np.where(is_usable, times.stamp_ms, np.iinfo(np.int64).max)
    is_at_horizon = is_usable & (stamp_ms >= times.asked_ms)
    return _advance_in_steps(lag, end, is_at_horizon, stamp_ms, steps)


def find_spread_s(times: RecordTimes, alignment: Alignment) -> float:
    """Return the seconds from the slowest to the fastest partition's time; 0 if unknown."""
    usable_ms = times.stamp_ms[_flag_usable_times(times, alignment)]
    return float(usable_ms.max() - usable_ms.min()) / 1000 if len(usable_ms) else 0.0


def _find_horizon(times: RecordTimes, alignment: Alignment) -> int | None:
    """Return the horizon in milliseconds; None if all records may be read."""
    usable_ms = times.stamp_ms[_flag_usable_times(times, alignment)]
    if len(times.stamp_ms) < 2 or not len(usable_ms):
        return None
    horizon_ms = int(usable_ms.min()) + alignment.span_ms
    return horizon_ms if horizon_ms <= times.now_ms + alignment.max_future_ms else None


def _flag_usable_times(times: RecordTimes, alignment: Alignment) -> Flags:
    return (times.stamp_ms >= 0) & (times.stamp_ms <= times.now_ms + alignment.max_future_ms)


def _advance_in_steps(
    lag: Lag, end: Ints, is_at_horizon: Flags, stamp_ms: Ints, steps: Mapping[tuple[str, int], int]
) -> AlignedEnds:
    """Advance in steps, in place, the partitions that `end` stops, unless they are at the horizon.

    If no partition would advance, the one with the lowest `stamp_ms` advances by one offset.
    """
    stays = end <= lag.start
    end[stays] = lag.start[stays]
    names = lag.names if stays.any() else []
    next_steps: dict[tuple[str, int], int] = {}
    for i in np.flatnonzero(stays & ~is_at_horizon).tolist():
        step = steps.get(names[i], 1)
        end[i] += min(step, int(lag.size[i]))
        next_steps[names[i]] = min(2 * step, _MAX_STEP_OFFSETS)
    if not (end > lag.start).any():  # the horizon of the last look-up was still too early
        end[stamp_ms.argmin()] += 1
    return AlignedEnds(end, next_steps)


def admit_up_to(lag: Lag, aligned: AlignedEnds, limits: Limits, memory: Memory) -> Admission:
    """Admit up to the aligned ends; partitions held back by alignment keep their waiting counts."""
    memory = replace(memory, steps=aligned.steps)
    if (aligned.end == lag.latest).all():
        return admit(lag, limits, memory)
    is_advancing = aligned.end > lag.start
    end = aligned.end.copy()
    advancing_lag = replace(lag.only(is_advancing), latest=end[is_advancing])
    # Equal batches up to a fixed end are possible only if alignment holds no partition back.
    admission = admit(advancing_lag, replace(limits, fixed_end=False), memory)
    end[is_advancing] = admission.end
    names = lag.only(~is_advancing).names
    waited_batches = {n: memory.waited_batches[n] for n in names if n in memory.waited_batches}
    waited_batches |= admission.memory.waited_batches
    new_memory = replace(admission.memory, waited_batches=waited_batches)
    return Admission(end, admission.held_back_by or "time", new_memory)
