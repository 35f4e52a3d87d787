"""Zones for real: brokers and executors in three racks, and bytes that were received."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from assignor_bridge.model import Executor
from tests import zones_driver
from tests.kafka_topics import Topic
from tests.property.test_zones import batch, least_crossing
from tests.support import drivers
from tests.support.broker_cluster import NEAREST_REPLICA, BrokerCluster
from tests.support.standalone_cluster import standalone_cluster, workers
from tests.zones_driver import RECORD, write

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

RACKS = ("a", "b", "c")
RACK_OF_HOST = dict(zip(("127.0.0.2", "127.0.0.3", "127.0.0.4"), RACKS, strict=True))
OPTIONS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
PARTITIONS, LIMIT = 12, 600
#: Batches after a change until costs are learned and consumers are warm.
WARM_UP = 4

Replicas = dict[int, frozenset[str]]


def created(
    brokers: BrokerCluster, replication: int, partitions: int = PARTITIONS
) -> tuple[Topic, Replicas]:
    """Make a topic; with the racks of each partition."""
    name = f"zones-{replication}-{uuid4().hex[:6]}"
    brokers.create_topic(name, partitions, replication)
    told = brokers.admin().list_topics(name, timeout=10).topics[name].partitions
    replicas = {p: frozenset(RACKS[i - 1] for i in one.replicas) for p, one in told.items()}
    return Topic(brokers.bootstrap_servers, name), replicas


def run_driver(
    master: str, servers: str, folder: Path, runs: list[dict[str, Any]]
) -> list[list[dict[str, Any]]]:
    """Run one driver; what it said of each run."""
    folder.mkdir(exist_ok=True)
    done = drivers.run(zones_driver, master, servers, folder, json.dumps(runs), limit_s=600)
    (folder / "said.jsonl").write_text(done.stdout, encoding="utf-8")
    lines: list[list[dict[str, Any]]] = [[] for _ in runs]
    for line in map(json.loads, done.stdout.splitlines()):
        lines[line["run"]].append(line)
    return lines


@pytest.fixture(scope="module")
def brokers() -> Iterator[BrokerCluster]:
    with BrokerCluster(RACKS, NEAREST_REPLICA) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(folder, workers(1, 1, 1, racks=RACKS)) as cluster:
        yield cluster.url


def test_with_a_replica_in_each_zone_next_to_nothing_crosses(
    brokers: BrokerCluster, master: str, tmp_path: Path
) -> None:
    """Also without one executor, and when it is back."""
    topic, _ = created(brokers, 3)
    counts = [60 * LIMIT // PARTITIONS] * PARTITIONS
    write(topic, counts)
    options = OPTIONS | {"maxOffsetsPerTrigger": str(LIMIT)}
    run = {"topic": topic.name, "rows": sum(counts), "loses": 2 * WARM_UP, "options": options}
    [lines] = run_driver(master, brokers.bootstrap_servers, tmp_path, [run])
    assert_ours(lines)
    phases = steady(lines)
    assert list(phases) == ["all", "without 127.0.0.2", "back"]
    for phase, batches in phases.items():
        assert max(imbalance(line) for line in batches) <= 0.05, phase
        assert crossed(batches) <= 0.05, phase


def test_with_fewer_replicas_hardly_more_crosses_than_must(
    brokers: BrokerCluster, master: str, tmp_path: Path
) -> None:
    """More work than slots is in some zones; records come batch by batch."""
    runs: list[dict[str, Any]] = []
    where: list[Replicas] = []
    for replication in (2, 1):
        topic, replicas = created(brokers, replication)
        if replication == 2:
            weights = [1 if "c" in replicas[p] else 8 for p in range(PARTITIONS)]
        else:
            weights = [3 if "a" in replicas[p] else 1 for p in range(PARTITIONS)]
        each = [LIMIT * weight // sum(weights) for weight in weights]
        options = OPTIONS | {"minOffsetsPerTrigger": str(sum(each))}
        rows = 4 * WARM_UP * sum(each)
        runs.append({"topic": topic.name, "rows": rows, "each": each, "options": options})
        where.append(replicas)
    told = run_driver(master, brokers.bootstrap_servers, tmp_path, runs)
    for lines, replicas in zip(told, where, strict=True):
        assert_ours(lines)
        [batches] = steady(lines).values()
        assert max(imbalance(line) for line in batches) <= 0.05
        bound = sum(least(line, replicas) for line in batches) / sum(map(records, batches))
        planned = sum(int(line["metrics"]["assignor.crossZoneOffsets"]) for line in batches)
        print(bound, planned / sum(map(records, batches)), crossed(batches))
        assert bound > 0.05, "the brokers have placed replicas so that all can be near"
        assert planned / sum(map(records, batches)) <= 1.1 * bound + 0.01
        as_counted_by_kafka(lines)


def assert_ours(lines: list[dict[str, Any]]) -> None:
    metrics = [line["metrics"] for line in lines if "metrics" in line]
    assert {m["assignor.strategy"] for m in metrics} == {"lag-aware-sticky"}
    assert {m["assignor.fallbacks"] for m in metrics} == {"0"}


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
