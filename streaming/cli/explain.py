"""`assignor report --batch`: explain why one batch of a query was planned as it was."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.errors import OptionError, elide, pluralize
from assignor_bridge.model import Partition
from streaming.cli.assignors import check_names, make_finder, parse_names
from streaming.cli.kafka_options import check_source
from streaming.cli.output import note, print_lines
from streaming.observe.words import format_seconds
from streaming.replay.kept_batch import read_kept_batch
from streaming.replay.log import read_checkpoint_log
from streaming.replay.one_batch import Explanation, PartitionStory, explain_batch, format_amount
from streaming.replay.replayed import DEFAULT_NAMES

#: Maximum number of partitions printed. Those that do not stay are first, then expensive ones.
_MAX_STORIES = 10
#: Value of --batch for the last batch with data.
_LAST_BATCH = -1
_PARTITION = re.compile(r"(.+)-(\d{1,10})")
_BATCH_HELP = f"Explain a batch instead of writing a page; {_LAST_BATCH} is the last one with data."
_PARTITION_HELP = "Explain only this partition, such as orders-7 (default batch: the last one)."

BatchNumber = Annotated[
    int | None, typer.Option(min=_LAST_BATCH, metavar="NUMBER", help=_BATCH_HELP)
]
NamedPartition = Annotated[
    str | None, typer.Option("--partition", metavar="TOPIC-NUMBER", help=_PARTITION_HELP)
]
SourceNumber = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Source to explain, if there are several.")
]
Assignors = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Assignors that may have planned the batch; default: all built-in."
    ),
]


def print_batch(
    checkpoint: str,
    batch: int | None,
    partition: str | None,
    source: str | None,
    plan_log: Path | None,
    *,
    assignors: str | None,
    as_json: bool,
) -> None:
    """Print a batch's plan, and each partition's previous and current slots, reason, and cost.

    The text has at most ten partitions. `batch` is -1 or None for the last batch with data. Raises
    OptionError for an unknown batch, partition, or source, or for several sources without `source`.
    """
    assignor_names = DEFAULT_NAMES if assignors is None else parse_names(assignors)
    find_assignor = make_finder(assignor_names, "--assignors")
    check_names(assignor_names, find_assignor)
    log = read_checkpoint_log(checkpoint)
    for warning in log.checkpoint.warnings:
        note(warning)
    check_source(source, log.batches_by_source)
    if source is None:
        if (count := len(log.batches_by_source)) > 1:
            raise OptionError(f"the query has {count} Kafka sources: choose one with --source")
        [source] = log.batches_by_source
    number = None if batch == _LAST_BATCH else batch
    kept_batch = read_kept_batch(log, source, number, plan_log, find_assignor)
    explanation = explain_batch(kept_batch, assignor_names, find_assignor)
    stories = _choose_stories(explanation.stories, partition)
    if as_json:
        typer.echo(json.dumps(explanation.as_json(stories)))
        return
    _print_plan(log.name_source(source), explanation, with_reasons=partition is None)
    for story in stories[:_MAX_STORIES]:
        _print_story(story, explanation)
    if len(stories) > _MAX_STORIES:
        print_lines([f"and {len(stories) - _MAX_STORIES:,} more: choose one with --partition"])


def _choose_stories(stories: Sequence[PartitionStory], name: str | None) -> list[PartitionStory]:
    if name is None:
        return sorted(stories, key=lambda s: (s.change == "stays", -s.predicted_cost, s.partition))
    match = _PARTITION.fullmatch(name)
    if match is None:
        raise OptionError(f"--partition {name!r}: expected a topic and a number, such as orders-7")
    partition = Partition(match[1], int(match[2]))
    matching_stories = [story for story in stories if story.partition == partition]
    if not matching_stories:
        partitions = elide([str(story.partition) for story in stories]) or "none"
        raise OptionError(f"--partition {name} was not read by this batch, which read {partitions}")
    return matching_stories


def _print_plan(title: str, explanation: Explanation, *, with_reasons: bool) -> None:
    batch, (summary, *reasons) = explanation.kept_batch, explanation.outcome.reasons
    print_lines([f"batch {batch.number} of {title}", summary, f"Based on {batch.origin}."])
    if batch.readers:
        partitions = pluralize(len(batch.readers), "partition")
        matches_text = f"{explanation.matching_partitions:,} of {partitions}"
        print_lines([f"The executor is the same as in the checkpoint for {matches_text}."])
        if explanation.matching_partitions < len(batch.readers):
            note(
                "this plan differs from the original plan, which may have used other options or "
                "racks; a plan log (assignor.planLog) records them"
            )
    if with_reasons:
        print_lines(f"- {reason}" for reason in reasons)


def _print_story(story: PartitionStory, explanation: Explanation) -> None:
    cost_text = f"predicted {format_amount(story.predicted_cost, explanation.weights)}"
    if story.took_s is not None:
        cost_text += f", took {format_seconds(story.took_s)}"
    print_lines(
        [
            "",
            f"{story.partition}: {story.change}",
            f"  before  {story.previous_slot or 'none (new, or its executor is gone)'}",
            *(f"  {'now' if n == 0 else '':6}  {p}" for n, p in enumerate(story.pieces)),
            f"  why     {story.why}",
            f"  cost    {cost_text}",
        ]
    )
