"""`assignor report --batch`: why one batch of a query was planned as it was."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.errors import OptionError, counted, elided
from assignor_bridge.model import Partition
from streaming.cli import assignors as own
from streaming.cli.kafka_options import check_source
from streaming.cli.output import note, print_lines
from streaming.observe.words import seconds_text
from streaming.replay.explain import Explanation, PartitionStory, amount_text, explain_batch
from streaming.replay.kept_batch import read_kept_batch
from streaming.replay.log import read_log
from streaming.replay.replayed import EVERYTHING

#: Partitions listed if none is named: first those that changed, then by predicted cost.
_MAX_PARTITIONS_LISTED = 10
#: The number of the last batch with data.
_LAST_BATCH = -1
_PARTITION = re.compile(r"(.+)-(\d{1,10})")

BatchNumber = Annotated[
    int | None,
    typer.Option(
        min=_LAST_BATCH, metavar="NUMBER",
        help=f"Explain this batch instead of writing the page; {_LAST_BATCH} is the last with data.",
    ),
]  # fmt: skip
NamedPartition = Annotated[
    str | None,
    typer.Option(
        "--partition",
        metavar="TOPIC-NUMBER",
        help="Explain this partition, such as orders-7, in --batch or the last batch with data.",
    ),
]
SourceNumber = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Which source, if the query has several.")
]
Assignors = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Assignors that may have planned --batch; by default all built-in."
    ),
]


def print_batch(
    checkpoint: str,
    batch: int | None,
    partition: str | None,
    *,
    source: str | None,
    plan_log: Path | None,
    assignors: str | None,
    as_json: bool,
) -> None:
    """Print for each partition of a batch who had read it, which slots read it, and why."""
    names = EVERYTHING if assignors is None else own.parse_names(assignors)
    find = own.make_finder(names, "--assignors")
    own.check_names(names, find)
    log = read_log(checkpoint)
    for warning in log.checkpoint.warnings:
        note(warning)
    check_source(source, log.sources)
    if source is None:
        if len(log.sources) > 1:
            raise OptionError(
                f"the query has {len(log.sources)} Kafka sources: choose one with --source"
            )
        [source] = log.sources
    number = None if batch == _LAST_BATCH else batch
    explanation = explain_batch(read_kept_batch(log, source, number, plan_log, find), names, find)
    stories = _choose_stories(explanation.stories, partition)
    if as_json:
        typer.echo(json.dumps(explanation.as_json(stories)))
        return
    _print_plan(log.title(source), explanation, with_reasons=partition is None)
    for story in stories[:_MAX_PARTITIONS_LISTED]:
        _print_story(story, explanation)
    if len(stories) > _MAX_PARTITIONS_LISTED:
        print_lines(
            [
                f"and {len(stories) - _MAX_PARTITIONS_LISTED:,} more partitions; name one by --partition"
            ]
        )


def _choose_stories(stories: Sequence[PartitionStory], name: str | None) -> list[PartitionStory]:
    if name is None:
        return sorted(stories, key=lambda s: (s.change == "stays", -s.predicted, s.partition))
    match = _PARTITION.fullmatch(name)
    if match is None:
        raise OptionError(f"--partition {name!r}: a topic and a number are expected: orders-7")
    wanted = Partition(match[1], int(match[2]))
    chosen = [story for story in stories if story.partition == wanted]
    if not chosen:
        read = elided([str(story.partition) for story in stories])
        raise OptionError(f"--partition {name}: this batch did not read it; it read {read}")
    return chosen


def _print_plan(title: str, explanation: Explanation, *, with_reasons: bool) -> None:
    kept, (summary, *reasons) = explanation.kept, explanation.outcome.reasons
    print_lines([f"batch {kept.number} of {title}", summary, f"Based on {kept.origin}."])
    if kept.readers:
        count = counted(len(kept.readers), "partition")
        print_lines(
            [f"{explanation.agreeing:,} of {count} are read by the executor in the checkpoint."]
        )
        if explanation.agreeing < len(kept.readers):
            note(
                "this is not the plan of then: its options or racks may be others; a plan log "
                "(assignor.planLog) has them"
            )
    if with_reasons:
        print_lines(f"- {reason}" for reason in reasons)


def _print_story(story: PartitionStory, explanation: Explanation) -> None:
    cost = f"predicted {amount_text(story.predicted, explanation.weights)}"
    if story.took is not None:
        cost += f", took {seconds_text(story.took)}"
    print_lines(
        [
            "",
            f"{story.partition}: {story.change}",
            f"  before  {story.before or 'no executor that is there'}",
            *(f"  {'now' if n == 0 else '':6}  {p}" for n, p in enumerate(story.pieces)),
            f"  why     {story.why}",
            f"  cost    {cost}",
        ]
    )
