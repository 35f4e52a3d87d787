"""`assignor lag`: how far a query or a consumer group is behind, from outside, changing nothing."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Annotated

import typer

from assignor_bridge.errors import OptionError
from streaming.cli import kafka_options, query_or_group
from streaming.lag.positions import Position
from streaming.lag.rows import Row, look_up, select
from streaming.lag.table import alarms, as_json, as_text


class Order(str, Enum):
    """What rows are sorted by; unknown figures come last."""

    PARTITION = "partition"
    LAG = "lag"
    SECONDS = "seconds"
    LOSS = "loss"


def lag(  # noqa: PLR0917
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Checkpoint of a query with a Kafka source.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Consumer group, in place of a checkpoint.")
    ] = None,
    bootstrap_servers: kafka_options.BootstrapServers = None,
    command_config: kafka_options.CommandConfig = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Only this topic; may be repeated.")
    ] = None,
    only_with_lag: Annotated[
        bool, typer.Option("--only-with-lag", help="Leave out partitions that are read to the end.")
    ] = False,
    sort: Annotated[Order, typer.Option(help="Order of the rows, worst first.")] = Order.PARTITION,
    seconds_limit: Annotated[
        float,
        typer.Option(
            min=0, max=600, metavar="SECONDS",
            help="Time for reading one record a lagging partition, for SECONDS-BEHIND; 0: none.",
        ),
    ] = 2.0,
    timeout: kafka_options.Timeout = 10.0,
    as_json_: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:  # fmt: skip
    """Show how far a query or a consumer group is behind.

    Columns of kafka-consumer-groups.sh, and behind them: the executor that read the partition
    last, seconds behind, the time until retention deletes unread records. Unknown is -, in JSON
    null. Exit code 1, with a line on stderr, where somebody must look: a topic is gone, a position
    is beyond its log's end, records were deleted unread, a lag cannot be told.
    """
    query_or_group.check_one_of(checkpoint, group)
    for name in topic or []:
        query_or_group.check_not_empty("--topic", name)
    brokers = kafka_options.brokers_of(bootstrap_servers, command_config, timeout)
    with _no_collector():
        positions = query_or_group.positions_of(checkpoint, group, brokers)
        positions = _of_topics(topic or [], positions)
        if brokers is None:
            rows = [Row(position) for position in positions]
        else:
            whole = checkpoint is not None
            rows = look_up(positions, brokers, seconds_limit_s=seconds_limit, whole_topics=whole)
        shown = select(rows, only_with_lag=only_with_lag, order=sort.value)
        typer.echo(json.dumps(as_json(shown)) if as_json_ else as_text(shown))
    if brokers is None:
        _tell(["without --bootstrap-servers only the checkpoint's own offsets are known"])
        return
    wrong = alarms(rows, brokers.gone)
    _tell([*brokers.notes, *wrong])
    if wrong or any(row.state == "unknown" for row in rows):
        raise typer.Exit(1)


def _tell(lines: list[str]) -> None:
    for line in lines:
        typer.echo(f"assignor: {line}", err=True)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep Python's garbage collector from going through thousands of rows that are all needed."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _of_topics(topics: list[str], positions: list[Position]) -> list[Position]:
    known = sorted({position.topic for position in positions})
    unknown = sorted(set(topics) - set(known))
    if unknown:
        raise OptionError(f"--topic {unknown[0]}: it is none of those read: {', '.join(known)}")
    return [position for position in positions if not topics or position.topic in topics]
