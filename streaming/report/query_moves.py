"""The report's section on moves: which partitions changed executor, and why.

The log of metrics has it for every batch, the planner's kept states for the last few.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from assignor_bridge.errors import elided
from streaming.redaction import redacted
from streaming.report import page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from checkpoints.sticky_state import StickyState
    from streaming.observe.query_progress import BatchProgress, SourceProgress
    from streaming.report.query_facts import QueryFacts

#: Rows of a table at most, the last ones; and names in a row.
_ROWS = 15
_NAMES = 6
#: What is said when nothing but the load has changed.
_LOAD = "to even out the load"
#: Metrics of the planner in which a change explains moves.
_EXPLAINING = ("executors", "slots", "partitions")


def section(facts: QueryFacts) -> list[str]:
    """Write the section."""
    parts = _of_progress(facts.progress)
    if facts.log is not None:
        kept = facts.log.checkpoint.kept_states
        for source, states in kept.items():
            name = f" of source {source}" if len(kept) > 1 else ""
            parts += _of_states(states, name)
    if parts:
        return parts
    if facts.progress:
        why = "no batch in the log was planned by an assignor."
    else:
        why = (
            "neither Spark's UI nor its offset log has it. The log of metrics (metrics.log_file) "
            "has it, and the state that the planner keeps in a checkpoint."
        )
    return [page.note(f"What moved is unknown: {why}")]


def _listed(words: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Write a sentence and below it the last rows, if there are any."""
    listed = [page.table(head, rows[-_ROWS:], ends_in_words=True)] if rows else []
    return [page.paragraph(words), *listed]


class _Moves(NamedTuple):
    """A batch with a move or a change."""

    batch: str
    moves: int
    imbalance: str
    why: str


def _moves_of_progress(logged: Sequence[BatchProgress]) -> tuple[int, list[_Moves]]:
    """Count the batches that an assignor planned, and list those with a move or a change."""
    rows, batches = [], 0
    before: dict[int, SourceProgress] = {}
    for progress in logged:
        for source in progress.sources:
            if "assignor.strategy" not in source.metrics or not source.has_data:
                continue
            batches += 1
            moves = int(source.number("movedPartitions") or 0)
            why = list(_changes(source, before.get(source.index)))
            before[source.index] = source
            if not moves and not why:
                continue
            name = f" (source {source.index})" if len(progress.sources) > 1 else ""
            imbalance = source.number("imbalance")
            over = "" if imbalance is None else f"{imbalance:.1%}"
            rows.append(_Moves(f"{progress.batch}{name}", moves, over, "; ".join(why) or _LOAD))
    return batches, rows


def _of_progress(logged: Sequence[BatchProgress]) -> list[str]:
    batches, rows = _moves_of_progress(logged)
    if not batches:
        return []
    listed = "Batches with a move or a change:" if rows else "Nothing else changed."
    return _listed(
        f"{sum(row.moves for row in rows):,} times the planner gave a partition to another "
        f"executor than before, in {batches:,} batches. {listed}",
        ("batch", "moved", "over ideal", "why"),
        [[row.batch, f"{row.moves}", row.imbalance, row.why] for row in rows],
    )


def _changes(source: SourceProgress, before: SourceProgress | None) -> Iterator[str]:
    """Say what differs from the batch before."""
    metrics, earlier = source.metrics, before.metrics if before is not None else {}
    if before is not None:
        old, new = earlier["assignor.strategy"], metrics["assignor.strategy"]
        if old != new:
            yield f"assignor {old} → {new}"
        # Partitions with data come and go with the data: that alone explains no move.
        renewed = before.number("generation") != source.number("generation")
        for key in _EXPLAINING:
            was, now = before.number(key), source.number(key)
            if None not in (was, now) and was != now and (key != "partitions" or renewed):
                yield f"{key} {was:.0f} → {now:.0f}"
    for key in ("assignor.fallbackReason", "assignor.stateWarning", "assignor.advice"):
        if metrics.get(key) and earlier.get(key) != metrics[key]:
            yield redacted(metrics[key])  # of a log that Spark wrote nothing is hidden yet


def _of_states(states: Sequence[StickyState], name: str) -> list[str]:
    """Compare the states that are kept, each with the one before."""
    rows = []
    for before, after in pairwise(states):
        there, now = ({(r.executor, r.host) for r in kept.readers} for kept in (before, after))
        left, came = sorted(there - now)[:_NAMES], sorted(now - there)[:_NAMES]
        changes = [f"executor {executor} ({host}) left" for executor, host in left]
        changes += [f"executor {executor} ({host}) came" for executor, host in came]
        for way, partitions in sorted(_moves(before, after).items()):
            what = f"{elided(partitions, _NAMES)}: {'; '.join(changes) or _LOAD}"
            rows.append([f"{after.batches}", " → ".join(way), f"{len(partitions):,}", what])
    if not states:
        return []
    kept = f"the last {len(states)} plans" if len(states) > 1 else "the last plan"
    return _listed(
        f"The planner's states in the checkpoint{name} cover {kept} "
        f"({states[-1].batches:,} batches planned in all, generation {states[-1].generation}): "
        + ("partitions that changed executor:" if rows else "no partition changed executor."),
        ("plan", "executors", "moved", "which, and why"), rows,
    )  # fmt: skip


def _moves(before: StickyState, after: StickyState) -> dict[tuple[str, str], list[str]]:
    """Return the partitions that went from one executor to another, by both."""
    old, moves = before.last_executors(), defaultdict(list)
    for tp, executor in after.last_executors().items():
        if old.get(tp, executor).executor != executor.executor:
            moves[old[tp].executor, executor.executor].append("{}-{}".format(*tp))
    return moves
