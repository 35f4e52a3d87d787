"""`assignor explain`: why one batch of a query was planned as it was."""

import json
import re
from collections.abc import Sequence
from typing import Annotated

import typer

from assignor_bridge.errors import OptionError, elided
from assignor_bridge.model import Partition
from streaming.cli import assignors as own
from streaming.cli.arguments import AsJson, PlanLog, check_not_empty
from streaming.cli.kafka_options import check_source
from streaming.cli.output import note, print_lines, print_table
from streaming.observe.words import counted, seconds_text
from streaming.replay.explain import Explanation, explain_batch
from streaming.replay.kept_batch import kept_batch
from streaming.replay.log import read_log
from streaming.replay.replayed import EVERYTHING
from streaming.replay.stories import PartitionStory

#: Partitions that are listed when none is named, those that changed first, then by cost.
_LISTED = 10
_NAME = re.compile(r"(.+)-(\d{1,10})")


def explain(  # noqa: PLR0917
    checkpoint: Annotated[
        str, typer.Option(metavar="DIR", help="Checkpoint of a query with a Kafka source.")
    ],
    batch: Annotated[
        int | None,
        typer.Option(min=0, metavar="NUMBER", help="Which batch; by default the last with data."),
    ] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="TOPIC-NUMBER", help="Which partition, such as orders-7.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Which source, if the query has several.")
    ] = None,
    plan_log: PlanLog = None,
    assignors: Annotated[
        str, typer.Option(help="What to compare: as in `assignor replay`.")
    ] = ",".join(EVERYTHING),
    as_json: AsJson = False,
) -> None:
    """Explain why partitions are where they are in one batch, and what others would have done.

    Says of each partition who had read it, which slots read it now and why, what it was predicted
    to cost and what it did, and what every other assignor and Spark's mappings would have done.
    Reads files only. A checkpoint keeps enough for its last three batches; --plan-log has it for
    all of its own. Of older ones it says what planning them again comes to.
    """
    check_not_empty("--checkpoint", checkpoint)
    names = own.names_in(assignors)
    find = own.finder(names, "--assignors")
    own.check_known(names, find)
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
    explained = explain_batch(kept_batch(log, source, batch, plan_log, find), names, find)
    stories = _chosen(explained.stories, partition)
    if as_json:
        typer.echo(json.dumps(explained.as_json(stories)))
        return
    _print(log.title(source), explained, stories, one=partition is not None)


def _chosen(stories: Sequence[PartitionStory], name: str | None) -> list[PartitionStory]:
    if name is None:
        return sorted(stories, key=lambda s: (s.change == "stays", -s.predicted, s.partition))
    match = _NAME.fullmatch(name)
    if match is None:
        raise OptionError(f"--partition {name!r}: a topic and a number are expected: orders-7")
    wanted = Partition(match[1], int(match[2]))
    found = [story for story in stories if story.partition == wanted]
    if not found:
        read = elided([str(story.partition) for story in stories])
        raise OptionError(f"--partition {name}: this batch did not read it; it read {read}")
    return found


def _print(
    title: str, explained: Explanation, stories: Sequence[PartitionStory], *, one: bool
) -> None:
    kept, (summary, *reasons) = explained.kept, explained.outcome.reasons
    print_lines([f"batch {kept.number} of {title}", summary, f"Based on {kept.origin}."])
    if kept.readers:
        many = counted(len(kept.readers), "partition")
        print_lines(
            [f"{explained.agreeing:,} of {many} are read by the executor in the checkpoint."]
        )
        if explained.agreeing < len(kept.readers):
            note(
                "this is not the plan of then: its options or racks may be others; a plan log "
                "(assignor.planLog) has them"
            )
    if not one:
        print_lines(f"- {reason}" for reason in reasons)
    for story in stories[:_LISTED]:
        took = "-" if story.took is None else seconds_text(story.took)
        print_lines(
            [
                "",
                f"{story.partition}: {story.change}",
                f"  before  {story.before or 'no executor that is there'}",
                *(f"  {'now' if n == 0 else '':6}  {p}" for n, p in enumerate(story.pieces)),
                f"  why     {story.why}",
                f"  cost    predicted {explained.amount(story.predicted)}, took {took} "
                f"({kept.took_origin})",
            ]
        )
    if len(stories) > _LISTED:
        print_lines([f"and {len(stories) - _LISTED:,} more partitions; name one by --partition"])
    print_lines(["", f"The same batch by others, judged by {explained.judged_by}:"])
    where = [str(stories[0].partition)] if one else []
    rows = []
    for other in explained.alternatives:
        if other.played is None:
            continue
        at = [other.where(stories[0].partition)] if one else []
        rows.append(
            [
                other.name, f"{other.played.over:.1%}", f"{other.played.tasks:,}",
                f"{other.played.broken:,}", *at,
            ]
        )  # fmt: skip
    print_table(("mapping", "regret", "tasks", "moved", *where), rows, words=where)
    print_lines(f"{a.name}: not planned: {a.error}" for a in explained.alternatives if a.error)
