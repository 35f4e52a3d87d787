"""`assignor run`: a job from a YAML file, from Kafka to Delta."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.broker import EmbeddedBroker
from streaming.progress import fetching

if TYPE_CHECKING:
    from types import FrameType

    from streaming.pipeline.loading import LoadedJob

#: Stands in the config until the embedded broker has an address.
_EMBEDDED = "127.0.0.1:9092"
_STOPPING = (signal.SIGINT, signal.SIGTERM)


class _StopAskedError(BaseException):
    """Ctrl-C or SIGTERM."""


class _Signals:
    """Ctrl-C and SIGTERM: raised until Spark is there, then noted.

    An exception in the midst of a call to Spark's JVM would leave the connection to it unusable.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.raises = True
        self._before = {number: signal.getsignal(number) for number in _STOPPING}

    def catch(self) -> None:
        """Become the handler; pyspark puts in its own when it starts."""
        for number in _STOPPING:
            signal.signal(number, self._note)

    def release(self) -> None:
        """Put back what was there."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        for each in _STOPPING:  # the next one ends us, should stopping hang
            signal.signal(each, signal.SIG_DFL)
        if self.raises:
            raise _StopAskedError


def run(
    job: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job.")],
    *,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY.PATH=VALUE", help="Change a value; may be repeated."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, print the effective config, start nothing.")
    ] = False,
    with_broker: Annotated[
        bool,
        typer.Option(
            "--with-broker",
            help="Start a broker on this machine for it, with the job's topics, filled by `seed:`.",
        ),
    ] = False,
) -> None:
    """Run a job: read topics, transform, write Delta tables; docs/pipelines.md has the keys.

    Ctrl-C or SIGTERM stops it (exit code 130 or 143), and the next run goes on from there.
    """
    from streaming.pipeline.checks import check_offline  # the models take a while to import
    from streaming.pipeline.loading import load_job
    from streaming.pipeline.seeding import read_seeds, seed_topics

    loaded = load_job(job, sets=sets or (), broker=_EMBEDDED if with_broker else None)
    check_offline(loaded)
    seeds = read_seeds(loaded)
    if dry_run:
        typer.echo(loaded.shown(), nl=False)
        return
    signals = _Signals()
    signals.catch()
    with contextlib.suppress(_StopAskedError), contextlib.ExitStack() as cleanup:
        cleanup.callback(signals.release)
        if with_broker:
            address = _broker_for(loaded, cleanup)
            loaded = load_job(job, sets=sets or (), broker=address)
            for topic, count in seed_topics(loaded, seeds, address).items():
                typer.echo(f"topic {topic}: made, {count:,} records", err=True)
        _run(loaded, signals, cleanup)
    if signals.number is not None:
        name = signal.Signals(signals.number).name
        typer.echo(f"assignor: stopped by {name}; the next run goes on from here", err=True)
        raise typer.Exit(128 + signals.number)


def _run(loaded: LoadedJob, signals: _Signals, cleanup: contextlib.ExitStack) -> None:
    from streaming.pipeline.checks import check_brokers

    check_brokers(loaded)
    from streaming.pipeline.run import start_job
    from streaming.pipeline.session import session_for

    spark = session_for(loaded.job)
    signals.raises = False
    signals.catch()
    cleanup.callback(spark.stop)
    running = start_job(spark, loaded)
    typer.echo(f"running: {', '.join(query.name for query in running.queries)}", err=True)
    running.await_end(lambda: signals.number is not None)
    if signals.number is None:
        for query in running.queries:
            typer.echo(f"{query.name}: done")


def _broker_for(loaded: LoadedJob, cleanup: contextlib.ExitStack) -> str:
    """Start a broker; its data lie in the job's checkpoint, which knows its offsets."""
    folder = loaded.job.checkpoint
    if folder is not None and "://" in folder:
        raise loaded.error("checkpoint", "a local folder is expected with --with-broker")
    with fetching("Kafka broker") as on_line:
        broker = EmbeddedBroker(data=Path(folder, ".broker") if folder else None, on_line=on_line)
        cleanup.callback(broker.close)
        broker.start()
    typer.echo(f"broker: {broker.bootstrap_servers}", err=True)
    return broker.bootstrap_servers
