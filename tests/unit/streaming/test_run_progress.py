"""What `assignor run` prints of a job, and what `run_job` returns: each batch is counted once."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from streaming.cli.run_progress import ProgressLines, format_summary
from streaming.pipeline.row_counts import WRITTEN_METRIC, ProgressCounter, QueryResult, sum_results


def test_each_batch_is_counted_once_and_a_line_is_printed_every_ten_seconds(capsys):
    now = 0.0
    results = [
        QueryResult("orders", "t/orders", is_table=True),
        QueryResult("orders.dead_letter_records", "t/bad", is_table=True, is_dead_letter=True),
        QueryResult("silent", None),
    ]
    counter = ProgressCounter("job.yaml", results, ProgressLines(lambda: now))

    def batch(number: int, rows: int, bad: int = 0, query: str = "orders") -> None:
        written = bad if query.endswith("records") else rows - bad
        observed: dict[str, Any] = {
            "records": Row(records=rows, bad_records=bad, tombstones=0, checksum=1),
            WRITTEN_METRIC: Row(rows=written),
        }
        progress = SimpleNamespace(
            name=query, batchId=number, numInputRows=rows, observedMetrics=observed,
            durationMs={"triggerExecution": 1250},
        )  # fmt: skip
        counter.onQueryProgress(SimpleNamespace(progress=progress))

    batch(7, 1200, 2)
    batch(7, 1200, 2)  # a repeated event of the same batch
    now = 4.0
    batch(8, 1)
    batch(3, 1201, 2, "orders.dead_letter_records")
    batch(1, 5, query="of another job")
    now = 10.0
    batch(9, 0)
    batch(10, 9)
    assert capsys.readouterr().err.splitlines() == [
        "orders: batch 7, 1,200 records in 1.2 s",
        "orders.dead_letter_records: batch 3, 1,201 records in 1.2 s",
        "orders: batch 10, 9 records in 1.2 s; 1,210 read, 1,208 written, 2 bad so far",
    ]
    assert [format_summary(result) for result in results] == [
        "orders: done, 3 batches: 1,210 read, 1,208 written, 2 bad (t/orders)",
        "orders.dead_letter_records: done, 1 batch: 1,201 read, 2 written (t/bad)",
        "silent: done, 0 batches: 0 read, 0 written, 0 bad",
    ]
    result = sum_results("orders", 12.5, results)
    assert (result.read, result.written, result.bad, result.batches) == (1210, 1208, 2, 3)
    assert result.tables == {"t/orders": 1208, "t/bad": 2}
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["tables"] == result.tables
    assert plain["queries"][0]["bad"] == plain["bad"] == 2


def test_the_rows_of_two_sinks_with_one_shared_table_are_added():
    results = [
        QueryResult("a", "t", is_table=True, written=3),
        QueryResult("b", "t", is_table=True, written=4),
        QueryResult("c", "topic", written=5),
    ]
    assert sum_results("job", 1.0, results).tables == {"t": 7}


def test_a_share_of_bad_records_is_warned_of_once(caplog):
    result = QueryResult("orders", "t")
    counter = ProgressCounter("job.yaml", [result], None)
    for number, bad in enumerate((1, 1, 9, 9)):
        observed = {"records": Row(records=100, bad_records=bad, tombstones=0, checksum=1)}
        counter.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(
            name="orders", batchId=number, numInputRows=100, observedMetrics=observed,
        )))  # fmt: skip
    [line] = caplog.messages
    assert "1% of the records that query 'orders' has read are bad (11 of 300): check" in line
