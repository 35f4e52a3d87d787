"""`assignor run`: run a job from a YAML file, from Kafka to Delta."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path  # noqa: TC003  (typer evaluates annotations)
from typing import TYPE_CHECKING, Annotated

import typer

from assignor_bridge.errors import AssignorError, OptionError, pluralize
from checkpoints.folders import local_path
from streaming.cli.broker import start_broker
from streaming.cli.output import note
from streaming.cli.stopping import StopSignals
from streaming.pipeline.spark.stderr_log import SparkLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.pipeline.config.loading import LoadedJob

#: Brokers in the config until the embedded broker has an address.
_PLACEHOLDER_ADDRESS = "127.0.0.1:9092"
_JVM_EXITED = "JAVA_GATEWAY_EXITED"
#: Shorter setting values may occur in a message by chance.
_MIN_VALUE_CHARACTERS = 4
_LOG_HELP = "Append Spark's log to this file; default: a new file in your log folder."


def run(
    job: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="Job file.")],
    *,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY.PATH=VALUE", help="Set a job key; may be repeated."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the job, print its config, and exit.")
    ] = False,
    with_broker: Annotated[
        bool,
        typer.Option(
            "--with-broker",
            help="Start a local broker, create the job's topics, and fill them from `seed:`.",
        ),
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(dir_okay=False, metavar="FILE", help=_LOG_HELP),
    ] = None,
) -> None:
    """Run a job: read topics, transform records, write Delta tables.

    Ctrl-C or SIGTERM stops the job (exit code 130 or 143). The next run of a job with a checkpoint
    continues from there. Spark's log goes to a file that the last line names, except under
    spark-submit. `assignor lab schema` prints all keys of a job.

    Example: `assignor run orders.yaml --set trigger="processingTime 10 seconds"`
    """
    from streaming.pipeline.broker_checks import seed_topics  # the models take a while to import
    from streaming.pipeline.config.referenced_files import load_checked_job, read_seeds

    broker = _PLACEHOLDER_ADDRESS if with_broker else None
    loaded_job = load_checked_job(job, overrides=sets or (), broker=broker)
    seeds = read_seeds(loaded_job)
    if dry_run:
        typer.echo(loaded_job.to_yaml(), nl=False)
        note("not checked without Spark: columns, SQL, topics, permissions")
        return
    log_line = ""
    with StopSignals() as signals, contextlib.ExitStack() as cleanup:
        if with_broker:
            address = start_broker(cleanup, _get_broker_folder(loaded_job)).bootstrap_servers
            loaded_job = loaded_job.replace_brokers(address)
            typer.echo(f"broker: {address}", err=True)
            for topic, count in seed_topics(loaded_job, seeds, address).items():
                typer.echo(f"topic {topic}: created, {pluralize(count, 'record')}", err=True)
        log_line = _run_job(loaded_job, signals, cleanup, log)
    if signals.number is not None:
        signal_name = signal.Signals(signals.number).name
        log_hint = f" ({log_line})" if log_line else ""
        next_run = "; the next run continues from here" if loaded_job.job.checkpoint else ""
        note(f"stopped by {signal_name}{next_run}{log_hint}")
        raise typer.Exit(128 + signals.number)
    if log_line:
        typer.echo(log_line, err=True)


def _run_job(
    loaded_job: LoadedJob, signals: StopSignals, cleanup: contextlib.ExitStack, log: Path | None
) -> str:
    """Run the job; return a line that names Spark's log, or "" under spark-submit."""
    from streaming.pipeline.broker_checks import check_network

    check_network(loaded_job)
    from streaming.pipeline.spark.job_session import is_submitted  # imports pyspark

    if is_submitted():
        if log is not None:
            raise OptionError("--log cannot be used under spark-submit: configure the log there")
        _run_with_spark(loaded_job, signals, cleanup, None)
        return ""
    spark_log = SparkLog(log, loaded_job.job.name, loaded_job.redact)
    log_line = f"Spark's log: {spark_log.path}"
    try:
        _run_with_spark(loaded_job, signals, cleanup, spark_log)
    except AssignorError as error:
        error.args = (f"{error} ({log_line})",)
        raise
    return log_line


def _run_with_spark(
    loaded_job: LoadedJob, signals: StopSignals, cleanup: contextlib.ExitStack, log: SparkLog | None
) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from streaming.cli.run_progress import ProgressLines, format_summary
    from streaming.pipeline.job_errors import summarize
    from streaming.pipeline.job_run import start_job
    from streaming.pipeline.spark.jvm import stop_jvm
    from streaming.pipeline.spark.time_zone import TIME_ZONE, use_default_time_zone

    cleanup.callback(stop_jvm)
    spark = _start_spark(loaded_job, log)
    signals.defer_signals()
    cleanup.callback(_stop_spark, spark)
    try:
        if zone := use_default_time_zone(spark, loaded_job.job):
            typer.echo(f"time zone: {zone} (set {TIME_ZONE} to change it)", err=True)
        running_job = start_job(spark, loaded_job, on_progress=ProgressLines())
        names = ", ".join(query.name for query in running_job.queries)
        typer.echo(f"running: {names}", err=True)
        running_job.await_end(lambda: signals.number is not None)
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise _make_error(loaded_job, summarize(error), at_start=False) from error
    if signals.number is None:
        for result in running_job.result.queries:
            typer.echo(format_summary(result))


def _stop_spark(spark: SparkSession) -> None:
    with contextlib.suppress(ConnectionError):  # its JVM has ended
        spark.stop()


def _start_spark(loaded_job: LoadedJob, log: SparkLog | None) -> SparkSession:
    """Start Spark; raise a one-line error if it does not start."""
    from streaming.pipeline.job_errors import add_hint, summarize
    from streaming.pipeline.spark.job_session import start_session

    typer.echo("starting Spark", err=True)
    try:
        return start_session(loaded_job.job, log.redirect_stderr() if log is not None else None)
    except AssignorError:
        raise
    except Exception as error:
        reason = summarize(error)
        if log is not None and _JVM_EXITED in reason:  # only the log has the cause
            reason = log.find_error() or reason
        reason = f"Spark does not start: {add_hint(reason, None)}"
        raise _make_error(loaded_job, reason, at_start=True) from error


def _make_error(loaded_job: LoadedJob, reason: str, *, at_start: bool) -> AssignorError:
    """Return the error for a Spark failure: ConfigError if a setting in the job caused it.

    Spark's message has an invalid setting's key and value; a JVM that does not start names one.
    """
    from streaming.pipeline.job_errors import ConfigError, JobError

    for key, value in loaded_job.job.spark.items():
        has_either = key in reason or (len(value) >= _MIN_VALUE_CHARACTERS and value in reason)
        if (key in reason and value in reason) or (at_start and has_either):
            return loaded_job.make_error(key, reason, ConfigError)
    return JobError(loaded_job.redact(f"{loaded_job.title}: {reason}"))


def _get_broker_folder(loaded_job: LoadedJob) -> Path | None:
    """Return the broker's folder in the checkpoint, which must be local; None without one."""
    if not loaded_job.job.checkpoint:
        return None
    folder = local_path(loaded_job.job.checkpoint)
    if folder is None:
        raise loaded_job.make_error("checkpoint", "a local folder is expected with --with-broker")
    return folder / ".broker"
