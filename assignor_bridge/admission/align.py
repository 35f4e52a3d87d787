"""Event-time alignment: no partition is read further than a span beyond the slowest.

A partition stands at the time of its first unread record, by Kafka's timestamps. The slowest one's
time and the span make the horizon. Kafka says where each partition's first record at or after the
horizon is, and the batch ends there. Two kinds of time do not count: unknown ones, and those of the
future, which a wrong clock has made. So they hold nobody up, and pull nobody ahead.

Kafka finds the first such record of the whole log. If that one has been read already (a stray,
records out of order), or is of the future, it says nothing about what comes next. That partition
goes on in steps: one record, then twice as many each time, as long as its time is not beyond the
horizon. So it neither stands still nor runs far ahead.
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

#: Beyond this a step is as long as any partition.
_MAX_STEP_RECORDS = 2**40
#: In a batch; after the last one its answer counts.
_MAX_LOOK_UPS = 2


class Alignment(NamedTuple):
    """How far times may be apart, in milliseconds."""

    #: Between the slowest partition's time and the end of any other.
    span: int
    #: Beyond the driver's clock; what is later is of the future.
    ahead: int


class Aligned(NamedTuple):
    """How far each partition may go, and the next step of those that go in steps, by name."""

    end: Ints
    steps: Mapping[tuple[str, int], int]


def align(
    lag: Lag, times: RecordTimes, alignment: Alignment, steps: Mapping[tuple[str, int], int]
) -> Aligned | int:
    """Return how far each partition may go; or the time that Kafka must be asked for first.

    The answer may show that the slowest partition is later than was thought, as after a pause;
    then Kafka is asked a second time.

    Examples
    --------
    The next record of one partition is of 12:00, that of another of 12:50, and the span is 30
    minutes: Kafka is asked for 12:30. Its answers are offset 600 of the first, where the batch ends
    then, and the very next record of the second, which has to wait.
    """
    horizon = _find_horizon(times, alignment)
    if horizon is None:
        return Aligned(lag.latest, {})
    if times.at is None or times.asked is None:
        return horizon
    if horizon > times.asked and times.look_ups < _MAX_LOOK_UPS:
        return horizon
    return _limit_ends(
        lag, times, times.at, times.asked, _find_usable_times(times, alignment), steps
    )


def measure_spread_s(times: RecordTimes, alignment: Alignment) -> float:
    """Return the seconds from the slowest partition's time to the fastest's."""
    stamp = times.stamp[_find_usable_times(times, alignment)]
    return float(stamp.max() - stamp.min()) / 1000 if len(stamp) else 0.0


def _find_horizon(times: RecordTimes, alignment: Alignment) -> int | None:
    """Return the time before which records may be read; None where all of them are."""
    stamp = times.stamp[_find_usable_times(times, alignment)]
    if len(times.stamp) < 2 or not len(stamp):
        return None
    horizon = int(stamp.min()) + alignment.span
    return horizon if horizon <= times.now + alignment.ahead else None


def _find_usable_times(times: RecordTimes, alignment: Alignment) -> Flags:
    return (times.stamp >= 0) & (times.stamp <= times.now + alignment.ahead)


def _limit_ends(  # noqa: PLR0917
    lag: Lag, times: RecordTimes, at: Ints, horizon: int, counts: Flags,
    steps: Mapping[tuple[str, int], int],
) -> Aligned:  # fmt: skip
    end = np.where(at < 0, lag.latest, np.minimum(at, lag.latest))
    stands = end <= lag.start
    end[stands] = lag.start[stands]
    names, longer = lag.names if stands.any() else [], {}
    for i in np.flatnonzero(stands & ~(counts & (times.stamp >= horizon))).tolist():
        step = steps.get(names[i], 1)
        end[i] += min(step, int(lag.size[i]))
        longer[names[i]] = min(2 * step, _MAX_STEP_RECORDS)
    if not (end > lag.start).any():  # all are later than thought, and Kafka was asked often enough
        slowest = int(np.where(counts, times.stamp, np.iinfo(np.int64).max).argmin())
        end[slowest] += 1
    return Aligned(end, longer)


def admit_aligned(lag: Lag, aligned: Aligned, limits: Limits, memory: Memory) -> Admission:
    """Admit as far as the partitions may go; those that have to wait for others keep their turn."""
    memory = replace(memory, steps=aligned.steps)
    if (aligned.end == lag.latest).all():
        return admit(lag, limits, memory)
    go = aligned.end > lag.start
    end = aligned.end.copy()
    able = replace(lag.only(go), latest=end[go])
    # Batches up to a fixed end have equal sizes only if nobody has to wait.
    admitted = admit(able, replace(limits, fixed_end=False), memory)
    end[go] = admitted.end
    kept = {name: memory.waiting[name] for name in lag.only(~go).names if name in memory.waiting}
    after = replace(admitted.memory, waiting={**kept, **admitted.memory.waiting})
    return Admission(end, admitted.held_by or "time", after)
