"""`assignor doctor`: check that this machine can run the bridge, or that a query can continue."""

from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.errors import OptionError, elide
from checkpoints.folders import DEAD_LETTER_PREFIX
from streaming.cli import kafka_options
from streaming.cli.arguments import BOOTSTRAP_SERVER, check_not_empty
from streaming.cli.output import note, print_checks
from streaming.doctor.checkpoint import examine_checkpoint
from streaming.doctor.machine import check_brokers, examine_machine
from streaming.doctor.spark import check_spark_address
from streaming.kafka.brokers import BrokerUnreachableError
from streaming.observe.check_result import Check
from streaming.observe.checkpoint_files import DamagedCheckpointError, read_checkpoint

_REQUEST_LIMIT_S = 10.0


def doctor(
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(*BOOTSTRAP_SERVER, metavar="HOST:PORT", help="Also check these brokers."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Instead of the machine, check whether this checkpoint's query can continue.",
        ),
    ] = None,
    command_config: kafka_options.CommandConfig = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Delta table that the checkpoint's query writes to."),
    ] = None,
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Check this Spark master or server instead of the machine: spark://host:7077, "
            "sc://host (Spark Connect) or k8s://host.",
        ),
    ] = None,
) -> None:
    """Check this machine's Python, Java, pyspark, jar, jar cache, Kafka connector and Delta.

    With --checkpoint, it checks the checkpoint and the planner's state instead; --table adds that
    the Delta table has the same batches, and --bootstrap-server adds that topics exist, were not
    re-created, kept their partitions, and still hold the checkpoint's offsets. With --spark, it
    checks that Spark accepts connections. The exit code is 1 if a check fails.

    Example: `assignor doctor --checkpoint data/checkpoints/orders --bootstrap-server kafka:9092`
    """
    check_not_empty("--checkpoint", checkpoint)
    check_not_empty("--table", table)
    check_not_empty("--spark", spark)
    if spark is not None:
        if checkpoint is not None or table is not None:
            raise OptionError("--spark cannot be used with --checkpoint or --table")
        checks = [check_spark_address(spark), *_check_brokers(bootstrap_servers, command_config)]
    elif checkpoint is not None:
        checks = _check_checkpoint(checkpoint, bootstrap_servers, command_config, table)
    elif table is not None:
        raise OptionError("--table needs --checkpoint: give both")
    else:
        checks = [*examine_machine(), *_check_brokers(bootstrap_servers, command_config)]
    print_checks(checks)
    if not all(check.holds for check in checks):
        raise typer.Exit(1)


def _check_checkpoint(
    location: str, servers: str | None, command_config: Path | None, table: str | None
) -> list[Check]:
    try:
        checkpoint = read_checkpoint(location)
    except DamagedCheckpointError as error:
        return [Check("checkpoint", False, str(error))]
    if folders := sorted(map(str, Path(checkpoint.name).parent.glob(f"{DEAD_LETTER_PREFIX}*"))):
        note(f"bad records of a source have their own checkpoint: also check {elide(folders)}")
    brokers = kafka_options.connect_to_brokers(servers, command_config, _REQUEST_LIMIT_S)
    checks = examine_checkpoint(checkpoint, brokers, table)
    for text in brokers.notes if brokers else ["topics were not checked: set --bootstrap-server"]:
        note(text)
    return checks


def _check_brokers(servers: str | None, command_config: Path | None) -> list[Check]:
    try:
        brokers = kafka_options.connect_to_brokers(servers, command_config, _REQUEST_LIMIT_S)
    except BrokerUnreachableError as error:
        return [Check("brokers answer", False, str(error))]
    return [] if brokers is None else [check_brokers(brokers)]
