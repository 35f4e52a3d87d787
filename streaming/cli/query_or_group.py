"""The two options that say whose positions are meant: a query's checkpoint or a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from assignor_bridge.errors import OptionError
from streaming.cli import kafka_options
from streaming.lag.positions import of_checkpoint, of_group

if TYPE_CHECKING:
    from streaming.kafka.brokers import Brokers
    from streaming.lag.positions import Position


def check_one_of(checkpoint: str | None, group: str | None) -> None:
    """Refuse both or neither, and an empty name, as of a variable that is not set."""
    if (checkpoint is None) == (group is None):
        raise OptionError("give either --checkpoint or --group: one of them, not both")
    check_not_empty("--checkpoint", checkpoint)
    check_not_empty("--group", group)


def check_not_empty(option: str, name: str | None) -> None:
    """Refuse an empty name: for librdkafka it ends the process, for a path it is this folder."""
    if name is not None and not name.strip():
        raise OptionError(f"{option} is empty: is a variable not set?")


def positions_of(
    checkpoint: str | None, group: str | None, brokers: Brokers | None, source: str | None = None
) -> list[Position]:
    """Give where the query or the group stands; stderr tells what could not be read of a query.

    Parameters
    ----------
    checkpoint, group
        One of the two, as `check_one_of` saw to.
    brokers
        The cluster; a group is known there only.
    source
        Only this source of a query; None for all.

    Raises
    ------
    OptionError
        When the checkpoint is none or has no such source, or a group's brokers are not given.
    GroupError
        When there is no such group, or it may not be seen.
    """
    if checkpoint is None:
        if brokers is None or group is None:
            raise kafka_options.no_brokers("--group")
        return of_group(brokers, group)
    from streaming.observe.checkpoint_files import (
        read_checkpoint,  # with numpy, which a group needs not
    )

    found = read_checkpoint(checkpoint)
    for warning in found.warnings:
        typer.echo(f"assignor: {warning}", err=True)
    if source is not None and source not in found.sources:
        known = ", ".join(found.sources)
        raise OptionError(f"--source is {source}: the checkpoint's Kafka sources are {known}")
    return of_checkpoint(found, source)
