"""Zones for real: brokers and executors in three racks, and bytes that were received."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from assignor_bridge.model import Executor
from tests import zones_driver
from tests.property.test_zones import batch, least_crossing
from tests.support.broker_cluster import NEAREST_REPLICA, BrokerCluster
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.integration, pytest.mark.drivers, pytest.mark.timeout(900)]

RACKS = ("a", "b", "c")
RACK_OF_HOST = dict(zip(("127.0.0.2", "127.0.0.3", "127.0.0.4"), RACKS, strict=True))
OPTIONS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
PARTITIONS, LIMIT, RECORD = 12, 600, 4_000
#: Batches after a change until costs are learned and consumers are warm.
WARM_UP = 4

Replicas = dict[int, frozenset[str]]


def filled(
    brokers: BrokerCluster, replication: int, records: Sequence[int]
) -> tuple[str, Replicas]:
    """Make a topic with so many records by partition; its name and where partitions are."""
    name = f"zones-{replication}-{uuid4().hex[:6]}"
    brokers.create_topic(name, len(records), replication)
    partitions = brokers.admin().list_topics(name, timeout=10).topics[name].partitions
    replicas = {
        number: frozenset(RACKS[i - 1] for i in partition.replicas)
        for number, partition in partitions.items()
    }
    write(brokers, name, records)
    return name, replicas


def write(brokers: BrokerCluster, name: str, records: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all"})
    for number, count in enumerate(records):
        for _ in range(count):
            producer.produce(name, os.urandom(RECORD), partition=number)
            producer.poll(0)
        assert producer.flush(60) == 0


def run_driver(
    master: str, servers: str, folder: Path, runs: list[dict[str, Any]]
) -> list[list[dict[str, Any]]]:
    """Run one driver; what it said of each run."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, zones_driver.__file__, master, servers, str(folder), json.dumps(runs)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    lines: list[list[dict[str, Any]]] = [[] for _ in runs]
    for line in map(json.loads, done.stdout.splitlines()):
        lines[line["run"]].append(line)
    return lines


def test_what_is_read_in_the_same_zone(tmp_path: Path) -> None:
    options = OPTIONS | {"maxOffsetsPerTrigger": str(LIMIT)}
    runs: list[dict[str, Any]] = []
    where: list[Replicas] = []
    with (
        BrokerCluster(RACKS, NEAREST_REPLICA) as brokers,
        standalone_cluster(tmp_path / "cluster", workers(1, 1, 1, racks=RACKS)) as cluster,
    ):
        for replication, batches in ((3, 60), (2, 16), (1, 16)):
            weights = [1] * PARTITIONS
            name, replicas = filled(brokers, replication, [0] * PARTITIONS)
            if replication == 2:
                weights = [1 if "c" in replicas[p] else 8 for p in range(PARTITIONS)]
            elif replication == 1:
                weights = [3 if "a" in replicas[p] else 1 for p in range(PARTITIONS)]
            counts = [batches * LIMIT * weight // sum(weights) for weight in weights]
            write(brokers, name, counts)
            loses = 2 * WARM_UP if replication == 3 else 0
            run = {"topic": name, "rows": sum(counts), "loses": loses, "options": options}
            runs.append(run)
            where.append(replicas)
        told = run_driver(cluster.url, brokers.bootstrap_servers, tmp_path / "driver", runs)

    for lines in told:
        metrics = [line["metrics"] for line in lines if "metrics" in line]
        assert {m["assignor.strategy"] for m in metrics} == {"lag-aware-sticky"}
        assert {m["assignor.fallbacks"] for m in metrics} == {"0"}

    phases = steady(told[0])
    assert list(phases) == ["all", "without 127.0.0.2", "back"]
    for phase, batches_ in phases.items():
        assert max(imbalance(line) for line in batches_) <= 0.05, phase
        assert crossed(batches_) <= 0.05, phase

    for lines, replicas in zip(told[1:], where[1:], strict=True):
        [batches_] = steady(lines).values()
        assert max(imbalance(line) for line in batches_) <= 0.05
        bound = sum(least(line, replicas) for line in batches_) / sum(map(records, batches_))
        assert bound > 0.05, "the brokers have placed replicas so that all can be near"
        # Beside the records: what Kafka's clients are told of topics, by any broker.
        assert 0.5 * bound < crossed(batches_) <= 1.1 * bound + 0.01
        as_counted_by_kafka(lines)


def steady(lines: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The batches of each phase, without those that warm up and the very last, a small one."""
    phases: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if "phase" in line:
            phases.setdefault(line["phase"], []).append(line)
    return {phase: told[WARM_UP:-1] for phase, told in phases.items()}


def crossed(batches: list[dict[str, Any]]) -> float:
    """Share of the bytes received after the first of these batches that came from other racks."""
    first, last = batches[0]["metrics"], batches[-1]["metrics"]
    cross, received = (
        int(last[f"assignor.{name}"]) - int(first[f"assignor.{name}"])
        for name in ("crossZoneBytes", "receivedBytes")
    )
    assert received > 0.9 * sum(line["rows"] for line in batches[1:]) * RECORD
    return cross / received


def imbalance(line: dict[str, Any]) -> float:
    return float(line["metrics"]["assignor.imbalance"])


def sizes(line: dict[str, Any]) -> dict[int, int]:
    [ends], [starts] = line["end"].values(), line["start"].values()
    return {int(p): end - starts[p] for p, end in ends.items()}


def records(line: dict[str, Any]) -> int:
    return sum(sizes(line).values())


def least(line: dict[str, Any], replicas: Replicas) -> float:
    """Records of a batch that must be read in another zone, at an imbalance of 5%."""
    read = {p: size for p, size in sizes(line).items() if size}
    executors = [Executor(rack, f"h{rack}", 1, rack=rack) for rack in RACKS]
    return least_crossing(batch(read.values(), [replicas[p] for p in read], executors))


def as_counted_by_kafka(lines: list[dict[str, Any]]) -> None:
    """The metrics say what Kafka's consumers themselves count, by executor and broker."""
    [counts] = [line["received"] for line in lines if "received" in line]
    received = sum(count for _, _, count in counts)
    cross = sum(n for host, i, n in counts if i > 0 and RACKS[i - 1] != RACK_OF_HOST[host])
    last = [line for line in lines if "metrics" in line][-1]["metrics"]
    assert int(last["assignor.receivedBytes"]) == pytest.approx(received, rel=0.02)
    assert int(last["assignor.crossZoneBytes"]) == pytest.approx(cross, abs=0.02 * received)
