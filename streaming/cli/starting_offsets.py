"""`assignor lag --as starting-offsets`: print the offsets read as Spark's `startingOffsets`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from assignor_bridge.errors import AssignorError, OptionError, elide
from streaming.cli import kafka_options
from streaming.cli.output import note
from streaming.lag.positions import EARLIEST, LATEST, build_starting_offsets

if TYPE_CHECKING:
    from streaming.kafka.brokers import Brokers

SourceNumber = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER", help="With --as starting-offsets: only this source of the checkpoint."
    ),
]
Missing = Annotated[
    Literal["earliest", "latest"] | None,
    typer.Option(
        help="With --as starting-offsets: start of partitions without an offset; default: earliest."
    ),
]


def print_starting_offsets(
    checkpoint: str | None,
    group: str | None,
    brokers: Brokers | None,
    *,
    topics: list[str] | None,
    source: str | None,
    missing: Literal["earliest", "latest"],
) -> None:
    """Print the offsets of a query or a consumer group as JSON for Spark's `startingOffsets`.

    Partitions without an offset start at `missing`, because Spark requires every partition. Raises
    OptionError for an unknown topic or conflicting sources, and AssignorError if the brokers do not
    report the partitions or no topic has an offset.
    """
    query = kafka_options.read_query(checkpoint, source)
    positions = kafka_options.read_positions(query, group, brokers, source)
    topic_names = set(topics or ()) or {position.topic for position in positions}
    positions = [position for position in positions if position.topic in topic_names]
    numbers_by_topic = None if brokers is None else brokers.list_partitions(topic_names)
    if brokers is not None and brokers.notes:
        raise AssignorError(f"the partitions are unknown: {brokers.notes[0]}")
    topics_read = {position.topic for position in positions}
    existing_topics = topics_read if numbers_by_topic is None else set(numbers_by_topic)
    if topics and (unknown_topics := topic_names - existing_topics):
        reason = "it does not exist" if brokers else "it is not in the checkpoint"
        raise OptionError(f"--topic {min(unknown_topics)}: {reason}")
    default_offset = EARLIEST if missing == "earliest" else LATEST
    result = build_starting_offsets(positions, numbers_by_topic, default_offset)
    if not result.offsets:
        origin = f"group {group!r}" if group else f"checkpoint {checkpoint!r}"
        problem = f"no topic of {origin} exists: check --bootstrap-server"
        raise AssignorError(problem if positions else f"{origin} has no offset in any topic")
    total = sum(map(len, result.offsets.values()))
    _note_partitions(result.default_partitions, total, f"without an offset start at {missing}")
    _note_partitions(result.missing_partitions, len(positions), "that no longer exist are omitted")
    if brokers is None:
        note("without --bootstrap-server, new partitions are unknown")
    last_batch = query.last_planned if query is not None else None
    if last_batch is not None and not last_batch.committed:
        note(
            f"batch {last_batch.batch_id} was planned but not completed: its rows may be in "
            "the table already, and a new checkpoint would write them again; let the query "
            "complete the batch, or check with `assignor doctor --checkpoint … --table …`"
        )
    typer.echo(json.dumps(result.offsets, separators=(",", ":")))


def _note_partitions(names: tuple[str, ...], total: int, predicate: str) -> None:
    if names:
        note(f"partitions {predicate}: {len(names)} of {total} ({elide(names)})")
