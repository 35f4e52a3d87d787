"""What a stream costs executors and brokers, by its partitions: the shared reader beside Spark's.

Each row is a run of its own: fresh brokers, a driver, two executors of one slot and 1 GB, a topic
of so many partitions with three new records of 100 bytes in each before every batch. The first
batch does not count, but where `batches` is "first"; a row of 100,000 has one record in each, and
more brokers, for one cannot hold so many. All records of a batch were read (numInputRows of each
batch is what was written), and each batch of the shared reader was planned by the option
(lag-aware-sticky, no fallback).

Brokers count themselves, read over JMX from before a batch is written until it was read; what the
producer sends is left out, what the driver asks is in it: so `other requests` and a few
`ListOffsets` are also there in a row of 10 partitions. `fetches` are those of consumers. `sessions`
are fetch sessions at the brokers after the last batch; a broker keeps 1,000 of them at most.
`connections made` are those of the whole batch, `held` those of one executor after the last batch
(a consumer has one by which it asks for the cluster, and one to a broker from which it fetches),
with its open files beside. `heap` is what is left of an executor's heap after a full collection
after the last batch, `peak resident` the most that its process ever had (VmHWM); both of the larger
executor. `driver:` is the driver's JVM alike, which may take 3 GB of heap. `requests a second`
are over the time of batches, which depends on the machine and what else it does; a batch's counts
hardly do.

Of Spark's own source, "cache for all" has room for a consumer of each partition
(`spark.kafka.consumer.cache.capacity`), and `fetch.max.wait.ms=1` instead of 500, without which it
waits half a second for each partition. "Cache 64" has that wait, too, and the default's cache: with
10,000 partitions the default would take most of an hour for a batch, and a cache for all more
memory and open files than there are.
"""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.topics import create_topic
from tests.lab.benchmarks import load_run
from tests.lab.benchmarks.broker_counts import FETCH
from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.turns import NO_WAIT, OURS, SCALE
from tests.support import drivers
from tests.support.broker_cluster import BrokerCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(5400)]

SHARED, DEFAULT, SMALL, ALL = (
    "shared reader", "Spark, default", "Spark, cache 64", "Spark, cache for all",
)  # fmt: skip
OPTIONS = {SHARED: OURS, DEFAULT: {}, SMALL: NO_WAIT, ALL: NO_WAIT}
#: Partitions, reader, and batches that count; without any, the first one does. Beyond a cache of 64
#: consumers Spark makes all others anew in each batch.
CASES = (
    (10, SHARED, 5), (10, DEFAULT, 5),
    (1_000, SHARED, 5), (1_000, DEFAULT, 1), (1_000, ALL, 2),
    (10_000, SHARED, 5), (10_000, SMALL, 0),
)  # fmt: skip
#: More than one broker can hold here: 65,530 memory maps and 20,000 open files for a process.
MOST, BROKERS, MOST_BATCHES = 100_000, 6, 2
RECORDS = 3
LIMIT_S = 1_800
#: With all brokers on one machine: who is late is not gone.
PATIENT = {"broker.session.timeout.ms": "30000"}
#: Small indices: 20,000 of them are mapped into the memory of a broker.
CONFIG = {"segment.index.bytes": "65536"}
OTHERS = ("Metadata", "ApiVersions", "DescribeTopicPartitions", "DescribeCluster")


@pytest.fixture(scope="module")
def rows() -> Iterator[list[dict[str, Any]]]:
    """Collects the rows and writes them when all runs are done."""
    found: list[dict[str, Any]] = []
    yield found
    if SCALE == 1 and found:
        write_report(
            "load", title="Load on executors and brokers, by partitions", rows=found,
            notes=__doc__ or "", command="make bench (tests/lab/benchmarks/test_bench_load.py)",
        )  # fmt: skip


@pytest.mark.parametrize(("partitions", "reader", "batches"), CASES)
def test_one_broker(
    partitions: int, reader: str, batches: int, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    with EmbeddedBroker() as broker:
        assert broker.pid is not None
        count = max(1, int(partitions * SCALE))
        row = measured(
            broker.bootstrap_servers, [broker.pid], count, reader, batches, RECORDS, tmp_path
        )
    rows.append(row)
    if reader == SHARED:
        assert row["connections held"] <= 2
        assert row["sessions"] <= load_run.EXECUTORS


def test_more_than_one_broker_can_hold(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    with BrokerCluster([None] * BROKERS, PATIENT, heap="1g") as cluster:
        pids = [pid for i in cluster.ids if (pid := cluster.pid(i)) is not None]
        count = int(MOST * SCALE)
        servers = cluster.bootstrap_servers
        rows.append(measured(servers, pids, count, SHARED, MOST_BATCHES, 1, tmp_path))
    assert rows[-1]["connections held"] <= 2 * BROKERS  # one for questions, one for fetches
    assert rows[-1]["sessions"] <= BROKERS * load_run.EXECUTORS


def measured(
    servers: str, brokers: Sequence[int], partitions: int, reader: str, batches: int,
    records_per_partition: int, folder: Path,
) -> dict[str, Any]:  # fmt: skip
    """Run one driver; its row."""
    topic = f"load-{uuid4().hex[:8]}"
    create_topic(servers, topic, partitions, CONFIG, limit_s=LIMIT_S)
    capacity = partitions if reader == ALL else 64
    asked = {
        "servers": servers, "brokers": list(brokers), "topic": topic, "partitions": partitions,
        "records_per_partition": records_per_partition, "batches": batches,
        "options": OPTIONS[reader], "folder": str(folder), "limit_s": LIMIT_S,
        "settings": {
            "spark_kafka_consumer_cache_capacity": str(capacity), "spark_driver_memory": "3g",
        },
    }  # fmt: skip
    done = drivers.run(load_run, json.dumps(asked), limit_s=2 * LIMIT_S)
    [told] = [line for line in drivers.parse_json_lines(done) if "executors" in line]
    print(partitions, reader, told, flush=True)
    return row_of(told, partitions, len(brokers), reader, batches)


def row_of(
    told: dict[str, Any], partitions: int, brokers: int, reader: str, batches: int
) -> dict[str, Any]:
    """Lay out what a run has told."""
    counted = batches or 1
    fetches, offsets = (told["requests"].get(kind, 0) for kind in (FETCH, "ListOffsets"))
    others = sum(told["requests"].get(kind, 0) for kind in OTHERS)
    held = {key: max(each[key] for each in told["executors"]) for key in told["executors"][0]}
    return {
        "partitions": partitions,
        "brokers": brokers,
        "reader": reader,
        "batches": batches or "first",
        "fetches a batch": round(fetches / counted),
        "ListOffsets a batch": round(offsets / counted),
        "other requests a batch": round(others / counted),
        "records a fetch": told["records"] * counted / fetches,
        "batch_s": statistics.median(told["seconds"]),
        "requests a second": round((fetches + offsets + others) / sum(told["seconds"])),
        "connections made a batch": round(told["made"] / counted),
        "connections held": held["connections"],
        "sessions": told["sessions"],
        "open files": held["files"],
        "heap, MB": round(held["heap_mb"]),
        "peak resident, MB": round(held["peak_rss_mb"]),
        "driver: heap, MB": round(told["driver"]["heap_mb"]),
        "driver: peak resident, MB": round(told["driver"]["peak_rss_mb"]),
    }
