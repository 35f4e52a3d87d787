"""The report's section on moves: which partitions changed executor, and why.

The log of metrics tells it of every batch, the planner's kept states of the last few; where there
is neither, the replay says what would move.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from streaming.report import page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from checkpoints.sticky_state import StickyState
    from streaming.observe.query_progress import BatchProgress, SourceProgress
    from streaming.replay.player import Replay
    from streaming.report.query_facts import QueryFacts

#: Rows of a table at most, the last ones; and names in a row.
_ROWS = 15
_NAMES = 6
#: What is said when nothing but the load has changed.
_LOAD = "to even out the load"
#: Metrics of the planner in which a change explains moves, with the word for it.
_EXPLAINING = (("executors", "executors"), ("slots", "slots"), ("partitions", "partitions"))


def section(facts: QueryFacts) -> list[str]:
    """Write the section."""
    parts = _of_progress(facts.progress)
    if facts.log is not None:
        for source, states in facts.log.kept_states.items():
            name = f" of source {source}" if len(facts.log.kept_states) > 1 else ""
            parts += _of_states(states, name)
    if parts:
        return parts
    unknown = page.paragraph(
        "What moved is not known: "
        + (
            "no batch in the log was planned by an assignor."
            if facts.progress
            else "neither Spark's UI nor its offset log tells it. The log of metrics "
            "(metrics.log_file) does, and the state that the planner keeps beside a checkpoint."
        ),
        "note",
    )
    return [unknown, *_of_replays(facts.replays)]


def _of_progress(found: Sequence[BatchProgress]) -> list[str]:
    rows, moved, batches = [], 0, 0
    before: dict[int, SourceProgress] = {}
    for progress in found:
        for source in progress.sources:
            if "assignor.strategy" not in source.metrics or not source.has_data:
                continue
            batches += 1
            moves = int(source.number("movedPartitions") or 0)
            why = list(_why(source, before.get(source.index)))
            before[source.index] = source
            moved += moves
            if moves or why:
                if moves and not why:
                    why = [_LOAD]
                several = len(progress.sources) > 1
                name = f"{progress.batch}{f' (source {source.index})' if several else ''}"
                rows.append(_row(name, source, why))
    if not batches:
        return []
    told = "Batches with a move or a change:" if rows else "Nothing else changed."
    parts = [
        page.paragraph(
            f"{moved:,} times the planner gave a partition to another executor than before, in "
            f"{batches:,} batches. {told}"
        )
    ]
    if rows:
        head = ("batch", "moved", "over ideal", "why")
        parts.append(page.table(head, rows[-_ROWS:], ends_in_words=True))
    return parts


def _why(source: SourceProgress, before: SourceProgress | None) -> Iterator[str]:
    """Say what differs from the batch before."""
    said = source.metrics
    if before is not None:
        old, new = before.metrics["assignor.strategy"], said["assignor.strategy"]
        if old != new:
            yield f"assignor {old} → {new}"
        # Partitions with data come and go with the data: that alone explains no move.
        renewed = before.number("generation") != source.number("generation")
        for key, words in _EXPLAINING:
            was, now = before.number(key), source.number(key)
            if None not in (was, now) and was != now and (key != "partitions" or renewed):
                yield f"{words} {was:.0f} → {now:.0f}"
    for key in ("fallbackReason", "stateWarning", "advice"):
        if said.get(f"assignor.{key}") and (
            before is None or before.metrics.get(f"assignor.{key}") != said[f"assignor.{key}"]
        ):
            yield said[f"assignor.{key}"]


def _row(name: str, source: SourceProgress, why: Sequence[str]) -> list[str]:
    imbalance = source.number("imbalance")
    return [
        name,
        source.metrics.get("assignor.movedPartitions", ""),
        "" if imbalance is None else f"{imbalance:.1%}",
        "; ".join(why),
    ]


def _of_states(states: Sequence[StickyState], name: str) -> list[str]:
    """Compare the states that are kept, each with the one before."""
    rows = []
    for before, after in pairwise(states):
        gone = sorted(set(before.readers) - set(after.readers))
        came = sorted(set(after.readers) - set(before.readers))
        changes = [f"executor {r.executor} ({r.host}) left" for r in gone[:_NAMES]]
        changes += [f"executor {r.executor} ({r.host}) came" for r in came[:_NAMES]]
        moves = _moves(before, after)
        by_way: dict[tuple[str, str], list[str]] = {}
        for partition, old, new in moves:
            by_way.setdefault((old, new), []).append(partition)
        for (old, new), partitions in sorted(by_way.items()):
            left = len(partitions) - _NAMES
            more = f" and {left:,} more" if left > 0 else ""
            which = f"{', '.join(partitions[:_NAMES])}{more}"
            why = "; ".join(changes) or _LOAD
            rows.append(
                [f"{after.batches}", f"{old} → {new}", f"{len(partitions):,}", f"{which}: {why}"]
            )
    if not states:
        return []
    last = states[-1]
    kept = f"the last {len(states)} plans" if len(states) > 1 else "the last plan"
    parts = [
        page.paragraph(
            f"The planner's states beside the checkpoint{name} tell of {kept} ({last.batches:,} "
            f"batches planned in all, generation {last.generation}): "
            + ("partitions that changed executor:" if rows else "no partition changed executor.")
        )
    ]
    if rows:
        head = ("plan", "executors", "moved", "which, and why")
        parts.append(page.table(head, rows[-_ROWS:], ends_in_words=True))
    return parts


def _moves(before: StickyState, after: StickyState) -> list[tuple[str, str, str]]:
    """Give partitions that both know with another executor in each, with both."""
    old, new = _owners(before), _owners(after)
    return [
        (partition, old[partition], executor)
        for partition, executor in new.items()
        if old.get(partition, executor) != executor
    ]


def _owners(state: StickyState) -> dict[str, str]:
    """Give the executor that read each partition last."""
    executors = np.repeat(
        np.array([reader.executor for reader in state.readers], object),
        [reader.slots for reader in state.readers],
    )
    return {
        f"{state.topics[topic]}-{partition}": str(executors[member])
        for topic, partition, member in zip(
            state.topic.tolist(), state.partition.tolist(), state.member.tolist(), strict=True
        )
        if member >= 0
    }


def _of_replays(found: Sequence[Replay]) -> list[str]:
    """Give what the planner says in the replay."""
    parts = []
    for replay in found:
        ours = next((m for m in replay.mappings if any(m.reasons)), None)
        if ours is None:
            continue
        rows = [
            [str(played.batch), f"{played.broken}", "; ".join(lines[1:]) or lines[0]]
            for played, lines in zip(ours.played, ours.reasons, strict=True)
            if lines and played.broken
        ]
        parts.append(
            page.paragraph(
                f"In the replay (below) {ours.name} moves partitions in {len(rows)} of "
                f"{len(ours.played)} batches{', and says why:' if rows else '.'}"
            )
        )
        if rows:
            head = ("batch", "moved", "why")
            parts.append(page.table(head, rows[-_ROWS:], ends_in_words=True))
    return parts
