"""The Delta sink of jobs in the user's own `writeStream`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from streaming import ConfigError, delta_sink
from streaming.cli import main
from tests.support.pipeline_tools import forget_last_commit, rows, send
from tests.support.spark_tools import assert_planned, read_topic, to_dict, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

OURS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
COLUMNS = (
    "CAST(key AS STRING) AS id", "CAST(value AS STRING) AS value", "topic", "partition", "offset",
    "timestamp",
)  # fmt: skip


@pytest.fixture
def orders(spark: SparkSession, topic: Topic) -> DataFrame:
    topic.create(2)
    return read_topic(spark, topic, OURS).selectExpr(*COLUMNS)


def run(orders: DataFrame, folder: Path, name: str = "c", **options: Any) -> list[dict[str, Any]]:
    sink = delta_sink(orders, path=str(folder / "table"), **options)
    writer = orders.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / name))
    query = writer.trigger(availableNow=True).start()
    wait_for_end(query)
    return [to_dict(progress) for progress in query.recentProgress]


def assert_proved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the audit proves that the table has each offset once."""
    table, checkpoint = str(folder / "table"), str(folder / "c")
    assert main.run(["audit", "--table", table, "--checkpoint", checkpoint, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["proved"] is True


def test_a_repeated_batch_is_written_once(
    spark: SparkSession, topic: Topic, orders: DataFrame, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    send(topic, [("a", "1"), ("b", "2")])
    progress = run(orders, tmp_path)
    assert_planned(progress)
    forget_last_commit(tmp_path / "c")
    send(topic, [("c", "3")])
    run(orders, tmp_path)
    assert rows(spark, tmp_path / "table", "value") == [("1",), ("2",), ("3",)]
    assert_proved(tmp_path, capsys)


@pytest.mark.long  # test_pipeline_jobs.py proves it of the same code
def test_an_upsert_keeps_the_newest_row_of_a_key(
    spark: SparkSession, topic: Topic, orders: DataFrame, tmp_path: Path
) -> None:
    options: Mapping[str, Any] = {
        "mode": "upsert", "keys": ["id"], "delete_when": "value = 'gone'"
    }  # fmt: skip
    send(topic, [("a", "1"), ("b", "2"), ("a", "3")])
    run(orders, tmp_path, **options)
    send(topic, [("b", "gone"), ("c", "4")])
    run(orders, tmp_path, **options)
    assert rows(spark, tmp_path / "table", "id", "value") == [("a", "3"), ("c", "4")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"mode": "merge"}, "mode: 'append' or 'upsert' is expected", id="mode"),
        pytest.param({"mdoe": "upsert"}, "mdoe", id="name"),
        pytest.param({"mode": "upsert"}, "needs 'keys'", id="keys"),
        pytest.param({"table": "t"}, "path", id="two places"),
        pytest.param({"from": "orders"}, "remove 'from', which is only for job files", id="from"),
        pytest.param({"partition_by": ["day"]}, "'day' is not a column", id="column"),
    ],
)
def test_an_invalid_option_is_one_line_before_the_query_starts(
    orders: DataFrame, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=r"^delta_sink") as raised:
        delta_sink(orders, path=str(tmp_path / "table"), **options)
    assert words in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert not (tmp_path / "table").exists()


def test_an_upsert_needs_an_order(orders: DataFrame, tmp_path: Path) -> None:
    keys = {"mode": "upsert", "keys": ["id"]}
    with pytest.raises(ConfigError, match=r"needs the columns 'offset'.* or 'sequence_by'"):
        delta_sink(orders.drop("offset"), path=str(tmp_path / "table"), **keys)


def test_a_new_checkpoint_does_not_write_rows_again(
    topic: Topic, orders: DataFrame, tmp_path: Path
) -> None:
    send(topic, [("a", "1")])
    run(orders, tmp_path)
    with pytest.raises(Exception, match="has rows of another query"):
        run(orders, tmp_path, "new")


def test_a_sink_serves_only_one_query(topic: Topic, orders: DataFrame, tmp_path: Path) -> None:
    send(topic, [("a", "1")])
    sink = delta_sink(orders, path=str(tmp_path / "table"), shared=True)
    for name in ("one", "two"):
        writer = orders.writeStream.foreachBatch(sink).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / name)).start()
        if name == "one":
            wait_for_end(query)
            continue
        with pytest.raises(Exception, match="a second query uses the sink"):
            wait_for_end(query)


@pytest.mark.long
def test_a_restarted_query_may_keep_its_sink(
    spark: SparkSession, topic: Topic, orders: DataFrame, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A program may restart its query after an error."""
    sink = delta_sink(orders, path=str(tmp_path / "table"))
    for records in ([("a", "1"), ("b", "2"), ("c", "3")], [("d", "4")]):
        send(topic, records)
        writer = orders.writeStream.foreachBatch(sink).trigger(availableNow=True)
        wait_for_end(writer.option("checkpointLocation", str(tmp_path / "c")).start())
        if len(records) > 1:
            forget_last_commit(tmp_path / "c")
    assert rows(spark, tmp_path / "table", "value") == [("1",), ("2",), ("3",), ("4",)]
    assert_proved(tmp_path, capsys)
