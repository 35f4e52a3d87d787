"""A task gives the same rows in the same order each time it runs, whatever ends or disturbs it.

Spark relies on it: if it repeats a part of a stage, rows that `rand(7)` distributed go where they
went before only if they come in the same order. One driver does it all; the tests check its output.
"""

from __future__ import annotations

import json
import os
import random
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.lab.benchmarks.report import commit
from tests.support import delta_positions_driver, drivers, row_order_driver, salted_driver
from tests.support.row_order_driver import BATCHES, DISTRIBUTIONS

if TYPE_CHECKING:
    from streaming.kafka.embedded import EmbeddedBroker
    from tests.support.kafka_topics import Topic

#: Each line is a run of `test_no_row_of_a_delta_table_is_lost_or_doubled`.
RUNS = Path(__file__).parents[2] / "build" / "kills"

pytestmark = [pytest.mark.integration, pytest.mark.kills, pytest.mark.timeout(1200)]

READERS = ["shared", pytest.param("spark", marks=pytest.mark.long)]
Lines = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=READERS)
def reader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def lines(broker: EmbeddedBroker, reader: str, tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """Run the driver; its lines by what it did with a batch."""
    name, folder = f"row-order-{uuid.uuid4().hex[:6]}", tmp_path_factory.mktemp("row-order")
    place = (broker.bootstrap_servers, name, folder)
    done = drivers.run(row_order_driver, *place, reader, limit_s=1100)
    found: Lines = {}
    for line in drivers.parse_json_lines(done):
        found.setdefault(line.get("done", "metrics"), []).append(line)
    return found


def test_each_batch_is_planned_by_the_assignor(lines: Lines, reader: str) -> None:
    [of_query] = lines["metrics"]
    planned = {(m["assignor.strategy"], m["assignor.fallbacks"]) for m in of_query["metrics"]}
    assert planned == {("lag-aware-sticky", "0")}
    assert len(of_query["metrics"]) == len(BATCHES[reader])


@pytest.mark.parametrize("how", ["again", "retried", "speculated", "cached"])
def test_actions_on_a_batch_give_the_same_rows_in_the_same_order(lines: Lines, how: str) -> None:
    batches = lines["compare"]
    assert [batch["differences"][how] for batch in batches] == [0] * len(batches)
    assert [batch["rows"] for batch in batches] == [{"lost": 0, "doubled": 0}] * len(batches)
    attempts = [batch["attempts"] for batch in batches]
    assert all(each["failed"] >= 2 and each["speculative"] >= 1 for each in attempts), attempts


@pytest.mark.parametrize("reader", READERS[:1], indirect=True)
def test_cached_rows_are_the_same_after_an_executor_has_died(lines: Lines) -> None:
    [batch] = lines["cached"]
    assert batch["differences"] == {"cached": 0}
    assert batch["rows"] == {"lost": 0, "doubled": 0}


@pytest.mark.parametrize("reader", READERS[:1], indirect=True)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_no_row_is_lost_or_doubled_when_a_part_of_a_stage_is_repeated(
    lines: Lines, distribution: str
) -> None:
    [batch] = lines["shuffle"]
    assert batch[distribution] == {"lost": 0, "doubled": 0}


@pytest.mark.long
@pytest.mark.timeout(2 * 3600)
def test_no_row_of_a_delta_table_is_lost_or_doubled(topic: Topic, tmp_path: Path) -> None:
    """Executors die in the middle of batches: as many as `KILLS` names, or 10."""
    kills = int(os.environ.get("KILLS") or 10)
    seed = int(os.environ.get("SEED") or random.randrange(2**32))
    place = (topic.bootstrap_servers, topic.name, tmp_path)

    done = drivers.run(salted_driver, *place, kills, seed, limit_s=90 * (kills + 5))

    [run] = drivers.parse_json_lines(done)
    planned = {(m["assignor.strategy"], m["assignor.fallbacks"]) for m in run["metrics"]}
    assert planned == {("lag-aware-sticky", "0")}
    assert len(run["killed_at"]) == kills
    # A task may have fetched all of its rows when the executor dies that they came from.
    assert run["repeated"] >= kills // 2
    table = {
        row["partition"]: row
        for row in drivers.parse_json_lines(drivers.run(delta_positions_driver, tmp_path / "table"))
    }
    expected = end_offsets(topic, salted_driver.PARTITIONS)
    found = {
        "seed": seed,
        "kills": kills,
        "repeated_stages": run["repeated"],
        "rows": sum(row["rows"] for row in table.values()),
        "doubled": sum(row["rows"] - row["offsets"] for row in table.values()),
        "lost": sum(expected.values()) - sum(row["offsets"] for row in table.values()),
    }
    RUNS.mkdir(parents=True, exist_ok=True)
    with (RUNS / f"salted-{commit()}.jsonl").open("a") as file:
        file.write(json.dumps(found) + "\n")
    assert (found["lost"], found["doubled"]) == (0, 0), found
    assert {p: (row["first"], row["last"] + 1) for p, row in table.items()} == {
        p: (0, end) for p, end in expected.items()
    }


def end_offsets(topic: Topic, partitions: int) -> dict[int, int]:
    """Return the end of each partition, as the broker has it."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap_servers, "group.id": "ends"})
    try:
        places = [TopicPartition(topic.name, partition) for partition in range(partitions)]
        return {one.partition: consumer.get_watermark_offsets(one, 30)[1] for one in places}
    finally:
        consumer.close()
