"""How long a rebalance takes: our assignors next to Kafka's own in the same run.

Three members own 1,000 partitions after a fourth left. The time is from the moment at which the
fourth begins to close until the last of the three has its partitions, by their own clocks on one
machine. Members heartbeat every 200 ms, so up to 200 ms of it are the wait for the next heartbeat.
Kafka's members are JVMs with the class of the same name, `lag-aware` is compared with Kafka's
`range`. `times Kafka` is the ratio of the medians; the limit is 1.2.
"""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING

import pytest

from streaming.kafka.embedded import EmbeddedBroker
from tests.lab.benchmarks.report import write_report
from tests.support.kafka_topics import Topic
from tests.support.real_group import RealGroup, compile_program

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1_800)]

PARTITIONS = 1_000
REBALANCES = 7
_KAFKA = "org.apache.kafka.clients.consumer."
#: Kafka's class that each of ours is compared with.
CASES = {
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
    "range": "RangeAssignor",
    "lag-aware": "RangeAssignor",
    "io.assignorbridge.LagAwareAssignor": "RangeAssignor",
}


def test_rebalances_next_to_kafkas(tmp_path: Path) -> None:
    java = compile_program(tmp_path, "GroupMember")
    with EmbeddedBroker() as broker:
        seconds = {
            strategy: measure(broker, java, strategy)
            for strategy in (*CASES, *(_KAFKA + name for name in sorted(set(CASES.values()))))
        }
    rows = []
    for strategy, class_name in CASES.items():
        ours, kafkas = seconds[strategy], seconds[_KAFKA + class_name]
        rows.append(
            {
                "assignor": strategy,
                "Kafka's": class_name,
                "seconds": statistics.median(ours),
                "seconds_max": max(ours),
                "Kafka's seconds": statistics.median(kafkas),
                "Kafka's seconds_max": max(kafkas),
                "times Kafka": statistics.median(ours) / statistics.median(kafkas),
                "rebalances": REBALANCES,
            }
        )
    write_report(
        "rebalance",
        title="Rebalances of three members with 1,000 partitions",
        command="make bench (tests/lab/benchmarks/test_bench_rebalance.py)",
        rows=rows,
        notes=(__doc__ or "").split("\n", 2)[2],
    )
    print(json.dumps(rows, indent=2))


def measure(broker: EmbeddedBroker, java: str, strategy: str) -> list[float]:
    """Return the seconds of each rebalance, without the first one, which warms up."""
    name = strategy.rpartition(".")[2]
    topic = f"t-{name}"
    Topic(broker.bootstrap_servers, topic).create(PARTITIONS)
    seconds = []
    settings = {"session_ms": 10_000}
    with RealGroup(broker.bootstrap_servers, name, {topic: PARTITIONS}, java, **settings) as group:
        for member in ("a", "b", "c"):
            group.add(member, strategy)
        group.wait_until_stable()
        for number in range(REBALANCES + 1):
            leaver = f"d{number}"
            group.add(leaver, strategy)
            group.wait_until_stable()
            group.leave(leaver)
            group.wait_until_stable()
            [start] = [e["at"] for e in group.gone[leaver].events if e["event"] == "closing"]
            ends = [
                event["at"]
                for member in group.members.values()
                for event in member.events
                if event["event"] == "assigned" and event["at"] > start
            ]
            seconds.append(max(ends) - start)
    return seconds[1:]
