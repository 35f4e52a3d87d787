"""Options for racks and for the cost of cross-rack reads."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.errors import OptionError
from streaming.cli.kafka_options import connect_to_brokers
from streaming.cli.output import note
from streaming.kafka.replicas import fetch_replica_racks
from streaming.replay.log import CheckpointLog
from streaming.replay.racks_input import RackMap, read_racks
from streaming.replay.traffic import PRICE_PER_GB

_RACKS_HELP = (
    "Rack file: lines HOST=RACK, as in assignor.rackFile, or JSON with the racks of executors (by "
    "ID or host) and partitions (the leader's first): "
    '{"executors": {"h1": "a"}, "partitions": {"orders": {"0": ["a", "b"]}}}'
)
_PRICE_HELP = f"Price per GB across racks; default: {PRICE_PER_GB:g}, like assignor.zonePricePerGb."
_BYTES_HELP = "With --racks: bytes per record; default: as learned by the planner, or 100."

RacksFile = Annotated[
    Path | None, typer.Option("--racks", dir_okay=False, metavar="FILE", help=_RACKS_HELP)
]
PricePerGb = Annotated[
    float | None, typer.Option(min=0, max=1000, metavar="PRICE", help=_PRICE_HELP)
]
RecordBytes = Annotated[
    float | None, typer.Option(min=0.001, max=1_000_000_000, metavar="BYTES", help=_BYTES_HELP)
]


def read_racks_option(path: Path | None, options: Mapping[str, object]) -> RackMap | None:
    """Read the rack file, if given; without it, raise OptionError if any of `options` is set."""
    if path is not None:
        return read_racks(path)
    for option, value in options.items():
        if value is not None:
            raise OptionError(f"{option} needs --racks: give a rack file (see --help)")
    return None


def add_broker_racks(
    racks: RackMap | None, log: CheckpointLog, servers: str | None, command_config: Path | None
) -> RackMap | None:
    """Add what the brokers report about replicas; without brokers, return `racks` unchanged."""
    brokers = connect_to_brokers(servers, command_config, 10.0)
    if racks is None or brokers is None:
        return racks
    topics = {r.topic for bs in log.batches_by_source.values() for b in bs for r in b.ranges}
    replica_racks, allows_follower_reads = fetch_replica_racks(brokers, topics)
    for line in brokers.notes:
        note(line)
    return replace(
        racks,
        replica_racks={**racks.replica_racks, **replica_racks},
        allows_follower_reads=allows_follower_reads,
        origin=f"{racks.origin} and the brokers",
    )
