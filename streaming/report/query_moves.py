"""Write the report's section on moves: the batches that moved partitions, and the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from assignor_bridge.errors import pluralize
from streaming.redaction import redact
from streaming.report import page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streaming.observe.query_progress import BatchProgress, SourceProgress
    from streaming.report.query_facts import QueryFacts

#: Maximum number of table rows; only the last ones are shown.
_MAX_ROWS = 15
#: The reason for moves if only the load has changed.
_LOAD_REASON = "to balance the load"
#: Planner metrics whose changes explain moves.
_EXPLAINING_METRICS = ("executors", "slots", "partitions")
_HEADER = ("batch", "partitions moved", "over ideal", "reason")
_EXPLAIN_HINT = "assignor report CHECKPOINT --batch N explains one of the last batches."


def write_section(facts: QueryFacts) -> list[str]:
    """Write the moves in the metrics log, or only a note if no assignor planned a batch."""
    if not facts.progress:
        return [page.note(f"Moves are unknown: also give the metrics log. {_EXPLAIN_HINT}")]
    batch_count, rows = _list_moves(facts.progress)
    if not batch_count:
        return [page.note("Moves are unknown: no batch in the log was planned by an assignor.")]
    move_count = sum(row.moved_partitions for row in rows)
    moves_text = pluralize(move_count, "move of a partition", "moves of a partition")
    batches_text = pluralize(batch_count, "batch", "batches")
    last_sentence = "Batches with a move or a change:" if rows else "Nothing else changed."
    parts = [page.paragraph(f"{moves_text} to another executor in {batches_text}. {last_sentence}")]
    if rows:
        cells = [[row.batch, f"{row.moved_partitions}", row.imbalance, row.reason] for row in rows]
        parts.append(page.table(_HEADER, cells[-_MAX_ROWS:], ends_in_words=True))
    return [*parts, page.note(_EXPLAIN_HINT)]


class _BatchMoves(NamedTuple):
    """A table row: one batch of a source, with moves or changes."""

    batch: str
    moved_partitions: int
    imbalance: str
    reason: str


def _list_moves(batches: Sequence[BatchProgress]) -> tuple[int, list[_BatchMoves]]:
    """Return the number of batches with planner metrics, and a row for each move or change."""
    rows, batch_numbers = [], set()
    previous_by_index: dict[int, SourceProgress] = {}
    for progress in batches:
        for source in progress.sources:
            if "assignor.strategy" not in source.metrics or not source.has_data:
                continue
            batch_numbers.add(progress.batch)
            moved_partitions = int(source.get_number("movedPartitions") or 0)
            changes = list(_describe_changes(source, previous_by_index.get(source.index)))
            previous_by_index[source.index] = source
            if not moved_partitions and not changes:
                continue
            source_text = f" (source {source.index})" if len(progress.sources) > 1 else ""
            imbalance = source.get_number("imbalance")
            imbalance_text = "" if imbalance is None else f"{imbalance:.1%}"
            reason = "; ".join(changes) or _LOAD_REASON
            batch = f"{progress.batch}{source_text}"
            rows.append(_BatchMoves(batch, moved_partitions, imbalance_text, reason))
    return len(batch_numbers), rows


def _describe_changes(source: SourceProgress, previous: SourceProgress | None) -> Iterator[str]:
    """Yield the batch's differences from the previous batch, and its new warnings."""
    metrics = source.metrics
    old_metrics = previous.metrics if previous is not None else {}
    if previous is not None:
        old_name, new_name = old_metrics["assignor.strategy"], metrics["assignor.strategy"]
        if old_name != new_name:
            yield f"assignor {old_name} → {new_name}"
        # The set of partitions with data changes in most batches; that alone explains no move.
        is_new_generation = previous.get_number("generation") != source.get_number("generation")
        for key in _EXPLAINING_METRICS:
            old, new = previous.get_number(key), source.get_number(key)
            if None not in (old, new) and old != new and (key != "partitions" or is_new_generation):
                yield f"{key} {old:.0f} → {new:.0f}"
    for key in ("assignor.fallbackReason", "assignor.stateWarning", "assignor.advice"):
        if metrics.get(key) and old_metrics.get(key) != metrics[key]:
            yield redact(metrics[key])  # a log written by Spark itself is not redacted
