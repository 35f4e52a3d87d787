"""Run the demo: start a broker and Spark, run the acts, check the tables, write the report."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import tempfile
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge.errors import AssignorError, OptionError
from streaming.demo import flights, spark_process
from streaming.demo.checks import check_batches, check_run, check_table
from streaming.demo.compare import render_page
from streaming.demo.mode import Mode
from streaming.demo.progress import DemoProgress
from streaming.demo.turns import compute_batch_sizes, take_turns
from streaming.demo.verdict import Act
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.topics import create_topic, delete_topics
from streaming.observe.check_result import Check
from streaming.observe.figures import RunFigures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

_PARTITION_COUNT = 8
SPARK_DEFAULT = "Spark's default assignment"
_ASSIGNOR = "lag-aware-sticky"
#: Kafka's default, 500 ms, would delay Spark's reader in each batch, but not the shared reader.
_SOURCE_OPTIONS = {"kafka.fetch.max.wait.ms": "10"}
_ASSIGNOR_OPTIONS = {**_SOURCE_OPTIONS, "assignor": _ASSIGNOR}
_OPTIONS_BY_MODE = {SPARK_DEFAULT: _SOURCE_OPTIONS, _ASSIGNOR: _ASSIGNOR_OPTIONS}
#: Number of warm-up batches in the first and the second act that runs; the figures exclude them.
_WARM_UP_BATCHES = (2, 1)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of `assignor demo`; without brokers or a master, the demo starts its own."""

    workers: int
    rows: int
    batches: int
    work_us: int
    bootstrap_servers: str | None
    master: str | None
    data: Path | None


@dataclass(frozen=True, slots=True)
class _ActSettings:
    title: str
    rows: int
    work_us: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures and checks of all acts, and the duration of the whole demo."""

    acts: tuple[Act, ...]
    checks: tuple[Check, ...]
    seconds: float

    @property
    def succeeded(self) -> bool:
        """Whether all checks passed."""
        return all(check.holds for check in self.checks)


def run_demo(demo: DemoOptions, report: Path, stderr: Console) -> Outcome:
    """Run the demo and write its report; raise OptionError for a bad folder or too few rows.

    Raises AssignorError if a part fails; Spark's log, if any, is then copied next to the report.
    """
    if not report.parent.is_dir():
        raise OptionError(f"the report's folder does not exist: {str(report.parent)!r}")
    if not os.access(report.parent, os.W_OK):
        raise OptionError(f"the report's folder is not writable: {str(report.parent)!r}")
    if demo.data is not None and not demo.data.is_dir():
        raise OptionError(f"the data folder does not exist: {str(demo.data)!r}")
    compute_batch_sizes(demo.rows, demo.batches)
    flights.find_data_file()
    start_s = time.monotonic()
    data = demo.data.resolve() if demo.data is not None else None  # Spark runs in another folder
    with (
        tempfile.TemporaryDirectory(
            prefix="assignor-demo-", dir=data, ignore_cleanup_errors=True
        ) as scratch_folder,
        DemoProgress(stderr) as progress,
    ):
        try:
            acts, checks = _run_acts(demo, Path(scratch_folder), progress)
        except AssignorError as error:
            log = Path(scratch_folder, spark_process.LOG_NAME)
            if not log.is_file():
                raise
            log_copy = report.with_suffix(".log")
            shutil.copyfile(log, log_copy)
            raise AssignorError(f"{error} (Spark's log: {log_copy})") from error
    outcome = Outcome(tuple(acts), tuple(checks), time.monotonic() - start_s)
    report.write_text(_render_demo_page(demo, outcome), encoding="utf-8")
    return outcome


def _list_act_settings(demo: DemoOptions) -> list[_ActSettings]:
    all_settings = [_ActSettings("no simulated call", demo.rows, 0)]
    if demo.work_us:
        title = f"a simulated call of {demo.work_us / 1000:g} ms per record"
        all_settings.insert(0, _ActSettings(title, demo.rows, demo.work_us))
    return all_settings


def _run_acts(
    demo: DemoOptions, folder: Path, progress: DemoProgress
) -> tuple[list[Act], list[Check]]:
    all_settings = _list_act_settings(demo)
    with (
        _start_broker(demo, progress) as address,
        _create_topics(address, len(_OPTIONS_BY_MODE) * len(all_settings)) as topics,
    ):
        acts: list[Act] = []
        checks: list[Check] = []
        progress.begin("starting Spark (the first start downloads packages)")
        try:
            with spark_process.summarize_spark_errors(folder):
                spark = spark_process.start_spark(folder, demo.workers, demo.master)
                progress.advance()
                writer = flights.FlightWriter(address)
                # Run the act without a simulated call first, to warm up the JVMs for the other act.
                for number, act_settings in reversed([*enumerate(all_settings, start=1)]):
                    min_records, work_us = act_settings.rows // demo.batches, act_settings.work_us
                    modes = []
                    for name, source_options in _OPTIONS_BY_MODE.items():
                        path, topic = folder / f"{number}-{name}", topics.pop()
                        source = {"kafka.bootstrap.servers": address, **source_options}
                        mode = Mode(spark, name, writer, topic, path, source, min_records, work_us)
                        modes.append(mode)
                    warm_up = min(_WARM_UP_BATCHES[bool(acts)], demo.batches - 1)
                    act, act_checks = _run_act(act_settings, demo.batches, warm_up, modes, progress)
                    acts.insert(0, act)
                    checks[:0] = [replace(c, name=f"act {number}: {c.name}") for c in act_checks]
                spark.stop()
        finally:
            stopped_cleanly = spark_process.stop_spark()
    detail = "none had to be killed" if stopped_cleanly else "some had to be killed"
    return acts, [*checks, Check("all processes stopped", stopped_cleanly, detail)]


def _run_act(
    settings: _ActSettings, batches: int, warm_up: int, modes: list[Mode], progress: DemoProgress
) -> tuple[Act, list[Check]]:
    """Run all batches in both modes; return their figures and checks."""
    sizes, expected_table = compute_batch_sizes(settings.rows, batches), flights.ExpectedTable()
    progress.begin(f"batches with {settings.title}", len(modes) * batches)
    take_turns(modes, flights.read_flights(settings.rows), sizes, expected_table, progress.advance)
    runs = [RunFigures(mode.name, mode.stop(), warm_up_batches=warm_up) for mode in modes]
    checks = [check_batches(runs, sizes)]
    for mode, run in zip(modes, runs, strict=True):
        checks += check_table(mode.name, expected_table, mode.query_table())
        assignor = _OPTIONS_BY_MODE[mode.name].get("assignor")
        checks += check_run(run, settings.rows, assignor=assignor)
    return Act(settings.title, *runs), checks


@contextlib.contextmanager
def _start_broker(demo: DemoOptions, progress: DemoProgress) -> Iterator[str]:
    """Yield the address of the user's brokers or of an embedded broker."""
    if demo.bootstrap_servers:
        yield demo.bootstrap_servers
        return
    progress.begin("starting a Kafka broker")

    def on_line(_: str) -> None:
        progress.rename("downloading the broker's jars (only the first time)")

    with EmbeddedBroker(on_line=on_line) as broker:
        progress.advance()
        yield broker.bootstrap_servers


@contextlib.contextmanager
def _create_topics(bootstrap_servers: str, count: int) -> Iterator[list[str]]:
    """Create the demo's topics, yield their names, and delete them at the end."""
    suffix = uuid.uuid4().hex[:8]
    names = [f"assignor-demo-flights-{suffix}-{number}" for number in range(count)]
    created_topics: list[str] = []
    try:
        for name in names:
            create_topic(bootstrap_servers, name, _PARTITION_COUNT)
            created_topics.append(name)
        yield names
    finally:
        if created_topics:
            delete_topics(bootstrap_servers, created_topics)


def _render_demo_page(demo: DemoOptions, outcome: Outcome) -> str:
    lead = (
        f"{demo.rows:,} flights, keyed by carrier into {_PARTITION_COUNT} Kafka partitions, are "
        f"read by {demo.workers * spark_process.EXECUTOR_SLOTS} executor slots into Delta. Spark's "
        f'default and .option("assignor", "{_ASSIGNOR}") alternated by batch over the same records.'
    )
    slots = f"{spark_process.EXECUTOR_SLOTS} slots each, {demo.master or 'local-cluster'}"
    facts = [
        ("Machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("Python", platform.python_version()),
        ("pyspark", importlib.metadata.version("pyspark")),
        ("assignor-bridge", importlib.metadata.version("assignor-bridge")),
        ("Executors", f"{demo.workers} with {slots}"),
        ("JVM options", spark_process.JVM_OPTIONS),
        ("Whole demo", f"{outcome.seconds:.0f} s"),
    ]
    return render_page(lead, outcome.acts, outcome.checks, facts)
