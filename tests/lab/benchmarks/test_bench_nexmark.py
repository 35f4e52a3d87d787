"""Nexmark's first three queries over Kafka: bids as JSON, with the option and without.

q0 passes bids through, q1 turns their prices into euros, q2 keeps those of every 123rd auction;
each parses the JSON, and all columns that it yields are computed. Bids are as Nexmark's generator
makes them, in what matters for reading: half of them go to the few auctions that are hot just
now, and they are keyed by auction, so a few of sixteen partitions get most (by Kafka's own hash of
the key). 100,000 bids of about 150 bytes are a batch; four executors of one slot, which share two
cores with the broker. Nexmark counts events a second of a query that always has more to read: so
does `records_a_second`, from the seconds of whole batches. Results go nowhere (`noop`).

All ways run side by side and take turns, after two rounds that do not count. `times_ours` is a
way's batch over ours in the same round, the median. Spark's ways but the default have
`fetch.max.wait.ms=1`.

`ASSIGNOR_BENCH_SCALE=0.1` tries it with fewer bids and two rounds, and writes nothing.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.turns import NO_WAIT, OURS, SCALE, Work, cluster, rows_of, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

SLOTS, PARTITIONS, BIDS, ROUNDS = 4, 16, int(100_000 * SCALE), max(2, int(12 * SCALE))
#: Of a hundred auctions, one is hot; half of the bids are for hot ones.
AUCTIONS, HOT_EVERY = 1_000, 100
_SCHEMA = (
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,"
    " dateTime TIMESTAMP, extra STRING"
)
QUERIES = {
    "q0": ("auction", "bidder", "price", "dateTime", "extra"),
    "q1": ("auction", "bidder", "0.908 * price AS price", "dateTime", "extra"),
    "q2": ("auction", "price"),
}
WAYS = {
    "Spark: default": {},
    "Spark: no wait": NO_WAIT,
    f"Spark: minPartitions={8 * SLOTS}": {"minPartitions": str(8 * SLOTS)} | NO_WAIT,
    "lag-aware-sticky": OURS,
}


def shaped(name: str) -> Callable[[DataFrame], DataFrame]:
    def query(frame: DataFrame) -> DataFrame:
        bids = frame.selectExpr(f"from_json(CAST(value AS STRING), '{_SCHEMA}') AS bid")
        rows = bids.select("bid.*")
        return (rows.where("auction % 123 = 0") if name == "q2" else rows).selectExpr(
            *QUERIES[name]
        )

    return query


def write_bids(topic: Topic) -> None:
    """Write a batch of bids; each batch has the same."""
    draw = random.Random(7)
    producer = Producer(
        {
            "bootstrap.servers": topic.bootstrap_servers,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "partitioner": "murmur2_random",
        }
    )
    for number in range(BIDS):
        auction = draw.randrange(AUCTIONS)
        if draw.random() < 0.5:
            auction -= auction % HOT_EVERY
        bid = (
            f'{{"auction":{auction},"bidder":{draw.randrange(10_000)},'
            f'"price":{draw.randrange(100, 1_000_000)},"channel":"channel-{number % 50}",'
            f'"url":"https://example.org/item?id={number}",'
            f'"dateTime":"2026-01-01T00:00:{number % 60:02}.000Z","extra":"{"x" * 20}"}}'
        )
        producer.produce(topic.name, bid.encode(), key=str(auction).encode())
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = cluster(tmp_path_factory.mktemp("spark"), SLOTS)
    yield session
    session.stop()


def test_nexmark(spark: SparkSession, broker: EmbeddedBroker) -> None:
    rows: list[dict[str, Any]] = []
    for name in QUERIES:
        work = Work(PARTITIONS, BIDS, write_bids, shaped(name))
        took = take_turns(spark, broker.bootstrap_servers, work, WAYS, ROUNDS)
        rows += rows_of(f"Nexmark {name}", work, took, "lag-aware-sticky")
        print(*rows[-len(took) :], sep="\n", flush=True)
    if SCALE == 1:
        write_report(
            "nexmark", title="Nexmark q0, q1 and q2 over Kafka", rows=rows, notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_nexmark.py)",
        )  # fmt: skip
