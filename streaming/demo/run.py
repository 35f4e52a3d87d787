"""The demo from start to end: broker, Spark, acts in which modes take turns, checks, report."""

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
from streaming.demo import flights, job
from streaming.demo.checks import run_checks, same_batches, table_checks
from streaming.demo.compare import comparison_page
from streaming.demo.mode import Mode
from streaming.demo.progress import DemoProgress
from streaming.demo.turns import batch_sizes, take_turns
from streaming.demo.verdict import Act
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.topics import create_topic, delete_topics
from streaming.observe.check import Check
from streaming.observe.figures import RunFigures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

PARTITIONS = 8
SPARK_MAPPING = "Spark's default assignment"
OURS = "lag-aware-sticky"
#: Kafka's own 500 ms at the end of a log would hold up Spark's reader in each batch, but not ours.
_BOTH = {"kafka.fetch.max.wait.ms": "10"}
_MODES: dict[str, dict[str, str]] = {SPARK_MAPPING: _BOTH, OURS: _BOTH | {"assignor": OURS}}
#: Warm-up batches of the act that runs first and of the other one; the figures leave them out.
_WARM_UP = (2, 1)


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
class _Script:
    """What is different from act to act."""

    title: str
    rows: int
    work_us: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures and checks of all acts, and what all of it took."""

    acts: tuple[Act, ...]
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
    if not os.access(report.parent, os.W_OK):
        raise OptionError(f"the folder of the report cannot be written to: {str(report.parent)!r}")
    if demo.data is not None and not demo.data.is_dir():
        raise OptionError(f"the data folder does not exist: {str(demo.data)!r}")
    batch_sizes(demo.rows, demo.batches)
    flights.data_file()
    start_s = time.monotonic()
    place = demo.data.resolve() if demo.data is not None else None  # Spark's working folder differs
    with (
        tempfile.TemporaryDirectory(
            prefix="assignor-demo-", dir=place, ignore_cleanup_errors=True
        ) as scratch,
        DemoProgress(stderr) as progress,
    ):
        try:
            acts, checks = _run(demo, Path(scratch), progress)
        except AssignorError as error:
            log = Path(scratch, job.LOG)
            if not log.is_file():
                raise
            kept = report.with_suffix(".log")
            shutil.copyfile(log, kept)
            raise AssignorError(f"{error} (Spark's log: {kept})") from error
    outcome = Outcome(tuple(acts), tuple(checks), time.monotonic() - start_s)
    report.write_text(_page(demo, outcome), encoding="utf-8")
    return outcome


def _scripts(demo: Demo) -> list[_Script]:
    scripts = [_Script("no simulated call", demo.rows, 0)]
    if demo.work_us:
        call = f"a simulated call of {demo.work_us / 1000:g} ms per record"
        scripts.insert(0, _Script(call, demo.rows, demo.work_us))
    return scripts


def _run(demo: Demo, folder: Path, progress: DemoProgress) -> tuple[list[Act], list[Check]]:
    scripts = _scripts(demo)
    with (
        _broker(demo, progress) as address,
        _topics(address, len(_MODES) * len(scripts)) as topics,
    ):
        acts: list[Act] = []
        checks: list[Check] = []
        progress.begin("starting Spark (the first time it fetches packages)")
        try:
            with job.failures_in_a_line(folder):
                spark = job.start(folder, demo.workers, demo.master)
                progress.advance()
                writer = flights.Writer(address)
                # The act without a call runs first, so that the JVMs are warm for the other one.
                for number, script in reversed([*enumerate(scripts, start=1)]):
                    modes = [
                        Mode(
                            spark, name, writer, topics.pop(), folder / f"{number}-{name}",
                            {"kafka.bootstrap.servers": address, **options},
                            script.rows // demo.batches, script.work_us,
                        )
                        for name, options in _MODES.items()
                    ]  # fmt: skip
                    warm_up = min(_WARM_UP[bool(acts)], demo.batches - 1)
                    act, held = _act(script, demo.batches, warm_up, modes, progress)
                    acts.insert(0, act)
                    checks[:0] = [replace(c, name=f"act {number}: {c.name}") for c in held]
                spark.stop()
        finally:
            ended = job.end()
    words = "all processes ended" if ended else "some had to be killed"
    return acts, [*checks, Check("nothing is left running", ended, words)]


def _act(
    script: _Script, batches: int, warm_up: int, modes: Sequence[Mode], progress: DemoProgress
) -> tuple[Act, list[Check]]:
    """Let the modes take turns; return what they measured, and check their tables."""
    sizes, expected = batch_sizes(script.rows, batches), flights.Expected()
    progress.begin(f"batches with {script.title}", len(modes) * batches)
    records = flights.read_flights(script.rows)
    take_turns(modes, records, sizes, expected, progress.advance)
    sparks, ours = (RunFigures(mode.name, mode.end(), warm_up=warm_up) for mode in modes)
    checks = [same_batches(sparks, ours, sizes)]
    for mode, run in zip(modes, (sparks, ours), strict=True):
        checks += table_checks(mode.name, expected, mode.table_figures())
        checks += run_checks(run, script.rows, assignor=_MODES[mode.name].get("assignor"))
    return Act(script.title, sparks, ours), checks


@contextlib.contextmanager
def _broker(demo: Demo, progress: DemoProgress) -> Iterator[str]:
    """Yield the address of the user's broker, or of one that is started here."""
    if demo.bootstrap_servers:
        yield demo.bootstrap_servers
        return
    progress.begin("starting a Kafka broker")

    def on_line(_: str) -> None:
        progress.rename("fetching the broker's jars (once; they are kept)")

    with EmbeddedBroker(on_line=on_line) as broker:
        progress.advance()
        yield broker.bootstrap_servers


@contextlib.contextmanager
def _topics(bootstrap_servers: str, count: int) -> Iterator[list[str]]:
    """Create the demo's topics, and delete them at the end."""
    suffix = uuid.uuid4().hex[:8]
    names = [f"assignor-demo-flights-{suffix}-{number}" for number in range(count)]
    created: list[str] = []
    try:
        for name in names:
            create_topic(bootstrap_servers, name, PARTITIONS)
            created.append(name)
        yield names
    finally:
        if created:
            delete_topics(bootstrap_servers, created)


def _page(demo: Demo, outcome: Outcome) -> str:
    lead = (
        f"{demo.rows:,} flights, keyed by carrier into {PARTITIONS} Kafka partitions, are read by "
        f"{demo.workers * job.SLOTS} executor slots into Delta. Spark's default assignment and "
        f'.option("assignor", "{OURS}") alternated batch by batch over the same records.'
    )
    executors = f"{demo.workers} with {job.SLOTS} slots each, {demo.master or 'local-cluster'}"
    facts = [
        ("Machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("Python", platform.python_version()),
        ("pyspark", importlib.metadata.version("pyspark")),
        ("assignor-bridge", importlib.metadata.version("assignor-bridge")),
        ("Executors", executors),
        ("JVM options", job.JVM_OPTIONS),
        ("Whole demo", f"{outcome.seconds:.0f} s"),
    ]
    return comparison_page("One job, two assignments", [lead], outcome.acts, outcome.checks, facts)
