"""The demo from start to end: broker, flights, Spark in both modes, checks, report."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed

from assignor_bridge.errors import AssignorError, OptionError
from streaming.demo import flights, job
from streaming.demo.checks import run_checks, table_checks
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.topics import create_topic, delete_topics
from streaming.observe.check import Check
from streaming.observe.figures import RunFigures
from streaming.report.compare import comparison_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

PARTITIONS = 12
_WARM_UP_ROWS = 2_000
SPARK_MAPPING = "Spark's mapping"
OURS = "lag-aware-sticky"
_MODES: dict[str, dict[str, str]] = {SPARK_MAPPING: {}, OURS: {"assignor": OURS}}


@dataclass(frozen=True, slots=True)
class Demo:
    """What to run, as the options of `assignor demo` say; None for a part that is started here."""

    workers: int
    rows: int
    batches: int
    work_us: int
    bootstrap_servers: str | None
    master: str | None
    data: Path | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures and checks of both runs, and what all of it took."""

    runs: tuple[RunFigures, ...]
    checks: tuple[Check, ...]
    seconds: float

    @property
    def succeeded(self) -> bool:
        """Whether all checks hold."""
        return all(check.holds for check in self.checks)


def run_demo(demo: Demo, report: Path, stderr: Console) -> Outcome:
    """Run the demo and write its report.

    Raises AssignorError when a part could not be run; Spark's log is then kept next to the report.
    """
    if not report.parent.is_dir():
        raise OptionError(f"the folder of the report does not exist: {str(report.parent)!r}")
    if demo.data is not None and not demo.data.is_dir():
        raise OptionError(f"the data folder does not exist: {str(demo.data)!r}")
    flights.data_file()
    began = time.monotonic()
    place = demo.data.resolve() if demo.data is not None else None  # Spark's working folder differs
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               Elapsed())  # fmt: skip
    with (
        tempfile.TemporaryDirectory(
            prefix="assignor-demo-", dir=place, ignore_cleanup_errors=True
        ) as scratch,
        Progress(*columns, console=stderr) as progress,
    ):
        try:
            runs, checks = _run(demo, Path(scratch), progress)
        except AssignorError as error:
            log = Path(scratch, job.LOG)
            if not log.is_file():
                raise
            kept = report.with_suffix(".log")
            shutil.copyfile(log, kept)
            raise AssignorError(f"{error} (Spark's log: {kept})") from error
    outcome = Outcome(tuple(runs), tuple(checks), time.monotonic() - began)
    report.write_text(_page(demo, outcome), encoding="utf-8")
    return outcome


def _run(demo: Demo, folder: Path, progress: Progress) -> tuple[list[RunFigures], list[Check]]:
    with _broker(demo, progress) as address, _topics(address) as topics:
        step = progress.add_task("flights into a topic of 12 partitions", total=demo.rows)
        flights.produce(address, topics[1], min(demo.rows, _WARM_UP_ROWS))
        expected = flights.produce(
            address, topics[0], demo.rows, lambda count: progress.update(step, completed=count)
        )
        source = {
            "kafka.bootstrap.servers": address,
            # A little more than a share, so that rounding leaves no crumbs for a last batch.
            "maxOffsetsPerTrigger": str(-(-demo.rows // demo.batches) + PARTITIONS),
        }
        runs, checks = [], []
        try:
            with job.failures_in_a_line(folder):
                for run, table in _measured(demo, folder, progress, source, topics):
                    assignor = _MODES[run.name].get("assignor")
                    runs.append(run)
                    checks += table_checks(run.name, expected, table)
                    checks += run_checks(run, demo.rows, assignor=assignor)
        finally:
            ended = job.end()
    words = "all processes ended" if ended else "some had to be killed"
    return runs, [*checks, Check("nothing is left running", ended, words)]


def _measured(
    demo: Demo, folder: Path, progress: Progress, source: Mapping[str, str], topics: tuple[str, str]
) -> Iterator[tuple[RunFigures, Mapping[str, Any]]]:
    """Run the job in each mode, after a warm-up; yield its figures and what its table holds."""
    starting = progress.add_task("Spark starts (the first time it fetches packages)", total=1)
    spark = job.start(folder, demo.workers, demo.master)
    progress.update(starting, description="Spark", completed=1)
    warm_up = progress.add_task("warm-up, both modes", total=len(_MODES))
    for mode, options in _MODES.items():
        warming = {**source, **options, "subscribe": topics[1]}
        job.run(spark, warming, f"warm-up-{mode}", folder / f"warm-up-{mode}", demo.work_us)
        progress.update(warm_up, advance=1)
    for mode, options in _MODES.items():
        step, table = progress.add_task(mode, total=demo.batches), folder / mode
        reading = {**source, **options, "subscribe": topics[0]}
        batches = job.run(spark, reading, mode, table, demo.work_us)
        figures = job.measure(spark, batches)
        progress.update(step, completed=len(figures), total=len(figures))
        yield RunFigures(mode, figures, warm_up=1), job.table_figures(spark, table)
    spark.stop()


@contextlib.contextmanager
def _broker(demo: Demo, progress: Progress) -> Iterator[str]:
    """Yield the address of the user's broker, or of one that is started here."""
    if demo.bootstrap_servers:
        yield demo.bootstrap_servers
        return
    step = progress.add_task("Kafka broker", total=1)

    def on_line(_: str) -> None:
        progress.update(step, description="Kafka broker: fetching jars (once; they are kept)")

    with EmbeddedBroker(on_line=on_line) as broker:
        progress.update(step, description="Kafka broker", completed=1)
        yield broker.bootstrap_servers


@contextlib.contextmanager
def _topics(bootstrap_servers: str) -> Iterator[tuple[str, str]]:
    """Create the demo's topics, and delete them at the end."""
    suffix = uuid.uuid4().hex[:8]
    names = (f"assignor-demo-flights-{suffix}", f"assignor-demo-warm-up-{suffix}")
    for name in names:
        create_topic(bootstrap_servers, name, PARTITIONS)
    try:
        yield names
    finally:
        delete_topics(bootstrap_servers, names)


def _page(demo: Demo, outcome: Outcome) -> str:
    sparks, ours = outcome.runs
    cost = (
        f" Each record costs {demo.work_us} µs more, as a look-up in a service would."
        if demo.work_us
        else ""
    )
    lead = [
        f"{demo.rows:,} flights, keyed by carrier into {PARTITIONS} Kafka partitions, read by "
        f"{demo.workers} executor slots. The same job ran twice: with Spark's own mapping of "
        f'partitions to executors, and with .option("assignor", "{OURS}").{cost}',
        f"The busiest slot read {sparks.imbalance:.2f} times the mean with Spark's mapping and "
        f"{ours.imbalance:.2f} times with ours. A batch took {sparks.batch_seconds:.2f} s and "
        f"{ours.batch_seconds:.2f} s (median).",
    ]
    if not demo.work_us:
        lead.append(
            "The job is light: much of a batch is Delta's commit and Spark's scheduling, which "
            f"no mapping changes, and {demo.workers} slots share {os.cpu_count()} cores here. "
            "Balance shows in the time where records cost more or slots have cores of their own: "
            "try --work-us 200."
        )
    facts = [
        ("Machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("Python", platform.python_version()),
        ("pyspark", importlib.metadata.version("pyspark")),
        ("assignor-bridge", importlib.metadata.version("assignor-bridge")),
        ("Executors", f"{demo.workers} with one slot each, {demo.master or 'local-cluster'}"),
        ("Whole demo", f"{outcome.seconds:.0f} s"),
    ]
    return comparison_page("One job, two mappings", lead, outcome.runs, outcome.checks, facts)
