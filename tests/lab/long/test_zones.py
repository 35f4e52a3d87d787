"""Zones for real: brokers and executors in three racks, and bytes that were received."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from assignor_bridge.model import Executor
from tests.lab.long import zones_driver
from tests.lab.long.zones_driver import RECORD, WARM_UP
from tests.property.test_zones import batch, least_crossing
from tests.support import drivers
from tests.support.broker_cluster import NEAREST_REPLICA, BrokerCluster
from tests.support.kafka_topics import Topic
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

RACKS = ("a", "b", "c")
RACK_OF_HOST = dict(zip(("127.0.0.2", "127.0.0.3", "127.0.0.4"), RACKS, strict=True))
OPTIONS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
PARTITIONS, LIMIT = 12, 600
#: Batches of each phase after it has warmed up.
BATCHES = 6

Replicas = dict[int, frozenset[str]]
Lines = list[dict[str, Any]]


def created(
    brokers: BrokerCluster, replication: int, partitions: int = PARTITIONS
) -> tuple[Topic, Replicas]:
    """Make a topic; with the racks of each partition."""
    name = f"zones-{replication}-{uuid4().hex[:6]}"
    brokers.create_topic(name, partitions, replication)
    replicas = {
        one.id: frozenset(RACKS[i - 1] for i in one.replicas) for one in brokers.partitions(name)
    }
    return Topic(brokers.bootstrap_servers, name), replicas


def a_run(topic: Topic, each: list[int], options: dict[str, str], **more: object) -> dict[str, Any]:
    """A stream whose batches have so many records of each partition."""
    options = {"minOffsetsPerTrigger": str(sum(each))} | options
    return {"topic": topic.name, "each": each, "options": options, "batches": BATCHES} | more


def uneven(replicas: Replicas, limit: int = LIMIT) -> list[int]:
    """Records of each partition: most of them where there are too few executors.

    With two replicas 80% are in partitions that have none in `c`, with one 60% in those of `a`.
    """
    racks = [held for _, held in sorted(replicas.items())]
    if len(racks[0]) == 2:
        share, crowded = 0.8, ["c" not in held for held in racks]
    else:
        share, crowded = 0.6, ["a" in held for held in racks]
    much, little = share / crowded.count(True), (1 - share) / crowded.count(False)
    return [int(limit * (much if one else little)) for one in crowded]


def run_driver(master: str, servers: str, folder: Path, runs: list[dict[str, Any]]) -> list[Lines]:
    """Run one driver; what it said of each run."""
    folder.mkdir(exist_ok=True)
    done = drivers.run(zones_driver, master, servers, folder, json.dumps(runs), limit_s=800)
    (folder / "said.jsonl").write_text(done.stdout, encoding="utf-8")
    lines: list[Lines] = [[] for _ in runs]
    for line in drivers.parse_json_lines(done):
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
    run = a_run(topic, [LIMIT // PARTITIONS] * PARTITIONS, OPTIONS, loses=True)
    [lines] = run_driver(master, brokers.bootstrap_servers, tmp_path, [run])
    assert_ours(lines)
    batches = by_phase(lines)
    assert list(batches) == ["all", "without 127.0.0.2", "back"]
    for phase, told in batches.items():
        assert max(map(imbalance, told[WARM_UP:])) <= 0.05, phase
        assert crossed(told) <= 0.05, phase
        assert share_by_kafka(lines, phase) <= 0.05, phase


def test_with_fewer_replicas_hardly_more_crosses_than_must(
    brokers: BrokerCluster, master: str, tmp_path: Path
) -> None:
    """More work than slots is in some zones; also without one executor, and when it is back."""
    topics = [created(brokers, replication) for replication in (2, 1)]
    runs = [a_run(topic, uneven(replicas), OPTIONS, loses=True) for topic, replicas in topics]
    told = run_driver(master, brokers.bootstrap_servers, tmp_path, runs)
    for lines, (_, replicas) in zip(told, topics, strict=True):
        assert_ours(lines)
        phases = by_phase(lines)
        assert list(phases) == ["all", "without 127.0.0.2", "back"]
        for phase, batches in phases.items():
            assert max(map(imbalance, batches[WARM_UP:])) <= 0.05, phase
            lost = RACK_OF_HOST["127.0.0.2"] if phase.startswith("without") else ""
            bound = least_share(batches, replicas, lost)
            assert bound > 0.05, "the brokers have placed replicas so that all can be near"
            assert planned_share(batches) <= 1.1 * bound + 0.02, phase
            assert crossed(batches) <= 1.1 * bound, phase
            assert crossed(batches) == pytest.approx(share_by_kafka(lines, phase), abs=0.01)


def test_readers_go_where_kafka_sends_them(
    brokers: BrokerCluster, master: str, tmp_path: Path
) -> None:
    """Where the replica in a zone is not in sync, elsewhere; with a rack by the user, all there."""
    topics = [created(brokers, 3)[0] for _ in range(2)]
    even = [LIMIT // PARTITIONS] * PARTITIONS
    brokers.stop(3)
    try:
        runs = [
            a_run(topics[0], even, OPTIONS),
            a_run(topics[1], even, OPTIONS | {"kafka.client.rack": "a"}),
        ]
        two, one = run_driver(master, brokers.bootstrap_servers, tmp_path, runs)
    finally:
        brokers.start(3)
    for lines in (two, one):
        assert_ours(lines)
    in_sync = dict.fromkeys(range(PARTITIONS), frozenset(RACKS[:2]))
    bound = least_share(by_phase(two)["all"], in_sync)
    assert share_by_kafka(two, "all") == pytest.approx(bound, abs=0.05)
    [counts] = [line["received"] for line in one if "received" in line]
    from_a = sum(count for _, broker, count in counts if broker == 1)
    assert from_a > 0.95 * sum(count for _, _, count in counts)


def assert_ours(lines: Lines) -> None:
    metrics = [line["metrics"] for line in lines if "metrics" in line]
    assert {m["assignor.strategy"] for m in metrics} == {"lag-aware-sticky"}
    assert {m["assignor.fallbacks"] for m in metrics} == {"0"}


def by_phase(lines: Lines) -> dict[str, Lines]:
    """The batches of each phase; the first `WARM_UP` of each are not measured."""
    phases: dict[str, Lines] = {}
    for line in lines:
        if "phase" in line:
            phases.setdefault(line["phase"], []).append(line)
    return phases


def crossed(batches: Lines) -> float:
    """Share of the bytes received once warm that came from other racks, by our metrics."""
    first, last = batches[WARM_UP - 1]["metrics"], batches[-1]["metrics"]
    cross, received = (
        int(last[f"assignor.{name}"]) - int(first[f"assignor.{name}"])
        for name in ("crossZoneBytes", "receivedBytes")
    )
    return cross / received


def share_by_kafka(lines: Lines, phase: str) -> float:
    """The same as Kafka's consumers themselves count it, whoever has planned."""
    [counts] = [line["received"] for line in lines if line.get("of") == phase]
    sums: Counter[bool] = Counter()
    for host, broker, count in counts:  # below 0: a broker that is not known yet
        sums[broker > 0 and RACKS[broker - 1] != RACK_OF_HOST[host]] += count
    rows = sum(line["rows"] for line in by_phase(lines)[phase][WARM_UP:])
    assert sums.total() > 0.9 * rows * RECORD
    return sums[True] / sums.total()


def imbalance(line: dict[str, Any]) -> float:
    return float(line["metrics"]["assignor.imbalance"])


def planned_share(batches: Lines) -> float:
    """Share of the records that plans read in another zone."""
    planned = sum(int(line["metrics"]["assignor.crossZoneOffsets"]) for line in batches[WARM_UP:])
    return planned / sum(sum(sizes(line).values()) for line in batches[WARM_UP:])


def least_share(batches: Lines, replicas: Replicas, without: str = "") -> float:
    """Share of the records that must be read in another zone, at an imbalance of 5%.

    `without` is the rack whose executor is lost.
    """
    executors = [Executor(r, f"h{r}", 1, rack=r) for r in RACKS if r != without]
    least, total = 0.0, 0
    for line in batches[WARM_UP:]:
        read = {p: size for p, size in sizes(line).items() if size}
        least += least_crossing(batch(read.values(), [replicas[p] for p in read], executors))
        total += sum(read.values())
    return least / total


def sizes(line: dict[str, Any]) -> dict[int, int]:
    [ends], [starts] = line["end"].values(), line["start"].values()
    return {int(p): end - starts[p] for p, end in ends.items()}
