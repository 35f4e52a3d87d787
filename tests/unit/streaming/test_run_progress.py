"""What `assignor run` tells while it runs: a line now and then, each batch counted once."""

from __future__ import annotations

from types import SimpleNamespace

from streaming.cli.run_progress import RunProgress


def test_a_line_each_ten_seconds_and_every_batch_in_the_sum(capsys):
    now = 0.0
    progress = RunProgress(lambda: now)

    def batch(number: int, rows: int, query: str = "orders") -> None:
        told = SimpleNamespace(
            id=query, name=query, batchId=number, numInputRows=rows,
            durationMs={"triggerExecution": 1250},
        )  # fmt: skip
        progress.onQueryProgress(SimpleNamespace(progress=told))

    batch(7, 1200)
    batch(7, 1200)  # told again while the query is idle
    now = 4.0
    batch(8, 1)
    batch(3, 5, "other")
    now = 10.0
    batch(9, 0)
    batch(10, 9)
    assert capsys.readouterr().err.splitlines() == [
        "orders: batch 7, 1,200 rows in 1.2 s",
        "other: batch 3, 5 rows in 1.2 s",
        "orders: batch 10, 9 rows in 1.2 s; 1,210 rows so far",
    ]
    assert progress.summary("orders") == "3 batches, 1,210 rows"
    assert progress.summary("other") == "1 batch, 5 rows"
    assert progress.summary("silent") == "0 batches, 0 rows"
