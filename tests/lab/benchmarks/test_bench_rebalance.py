"""How long a rebalance takes: our assignors next to Kafka's own in the same run.

Three members own 1,000 partitions after a fourth left. The time is from the moment at which the
fourth begins to close until the last of the three has its partitions, by their own clocks on one
machine. Members heartbeat every 200 ms, so up to 200 ms of it are the wait for the next heartbeat:
the fourth leaves at moments spread over that interval, the same ones in each group. Kafka's members
are JVMs with the class of the same name, `lag-aware` is compared with Kafka's `range`. Groups that
are compared exist at the same time and rebalance alternately. `times Kafka` is the ratio of the
medians; the limit is 1.2.
"""

from __future__ import annotations

import json
import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from streaming.kafka.embedded import EmbeddedBroker
from tests.lab.benchmarks.report import write_report
from tests.support.kafka_topics import Topic
from tests.support.real_group import RealGroup, compile_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1_800)]

PARTITIONS = 1_000
REBALANCES = 15
_HEARTBEAT_S = 0.2
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
        seconds: dict[str, list[float]] = {}
        for class_name in sorted(set(CASES.values())):
            ours = [name for name, compared_with in CASES.items() if compared_with == class_name]
            seconds |= measure(broker, java, [*ours, _KAFKA + class_name])
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


def measure(broker: EmbeddedBroker, java: str, strategies: Sequence[str]) -> dict[str, list[float]]:
    """Return the seconds of each rebalance by strategy, without the first, which warms up."""
    seconds: dict[str, list[float]] = {strategy: [] for strategy in strategies}
    with ExitStack() as stack:
        groups = {
            each: stack.enter_context(create_group(broker, java, each)) for each in strategies
        }
        for strategy, group in groups.items():
            for member in ("a", "b", "c"):
                group.add(member, strategy)
            group.wait_until_stable()
        for number in range(REBALANCES + 1):
            for strategy, group in groups.items():
                wait_s = _HEARTBEAT_S * number / REBALANCES
                seconds[strategy].append(measure_leave(group, strategy, f"d{number}", wait_s))
    return {strategy: measured[1:] for strategy, measured in seconds.items()}


def create_group(broker: EmbeddedBroker, java: str, strategy: str) -> RealGroup:
    """Return a group without members for a topic of its own."""
    name = strategy.rpartition(".")[2]
    topic = f"t-{name}"
    Topic(broker.bootstrap_servers, topic).create(PARTITIONS)
    settings = {"session_ms": 10_000, "metadata_ms": 300_000}
    return RealGroup(broker.bootstrap_servers, name, {topic: PARTITIONS}, java, **settings)


def measure_leave(group: RealGroup, strategy: str, leaver: str, wait_s: float) -> float:
    """Let a fourth member join, and leave `wait_s` later; return the seconds until it is over."""
    group.add(leaver, strategy)
    group.wait_until_stable()
    time.sleep(wait_s)
    group.leave(leaver)
    group.wait_until_stable()
    [left] = [e["at"] for e in group.gone[leaver].events if e["event"] == "closing"]
    ends = [
        event["at"]
        for member in group.members.values()
        for event in member.events
        if event["event"] == "assigned" and event["at"] > left
    ]
    return max(ends) - left
