"""How long a rebalance takes: our assignors compared with the clients' own in the same run.

Three members own 1,000 partitions after a fourth left. The time is from the moment at which the
fourth begins to close until the last of the three has its partitions, by their own clocks on one
machine. Members heartbeat every 200 ms, so up to 200 ms of it are the wait for the next heartbeat:
the fourth leaves at moments spread over that interval, the same ones in each group.

Each row has two baselines. The first is the same client's own assignor of that name, in a group of
that client; `lag-aware` is compared with `range`, because no client has it. The second is Kafka's
class in a group of JVM members; for a kafka-python row it compares two clients as well as two
assignors. Groups that are compared exist at the same time and rebalance alternately. A ratio is one
of medians, and its limit is 1.2. Members poll for 100 ms: kafka-python notices a rebalance only
when it stops waiting in `poll`, a JVM at once. `cooperative-sticky` has no first baseline, because
librdkafka cannot describe a group with kafka-python's own class.
"""

from __future__ import annotations

import json
import os
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
#: Fewer for a trial, more for a quieter median.
REBALANCES = int(os.environ.get("ASSIGNOR_BENCH_REBALANCES", "15"))
_HEARTBEAT_S = 0.2
_POLL_MS = 100
_KAFKA = "org.apache.kafka.clients.consumer."
_JVM_ASSIGNOR = "io.assignorbridge.LagAwareAssignor"
#: The assignor without a client, and Kafka's class, that each of ours is compared with.
CASES: dict[str, tuple[str | None, str]] = {
    "sticky": ("sticky", "StickyAssignor"),
    "cooperative-sticky": (None, "CooperativeStickyAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinAssignor"),
    "range": ("range", "RangeAssignor"),
    "lag-aware": ("range", "RangeAssignor"),
    _JVM_ASSIGNOR: (None, "RangeAssignor"),
}


def test_rebalances_compared_with_the_clients_own(tmp_path: Path) -> None:
    java = compile_program(tmp_path, "GroupMember")
    rows = []
    for strategy, (name, class_name) in CASES.items():
        baselines = [_KAFKA + class_name, *([f"kafka-python-{name}"] if name else ())]
        with EmbeddedBroker() as broker:
            seconds = measure(broker, java, [strategy, *baselines])
        rows.append(compare(strategy, name, class_name, seconds=seconds))
    write_report(
        "rebalance",
        title="Rebalances of three members with 1,000 partitions",
        command="make bench (tests/lab/benchmarks/test_bench_rebalance.py)",
        rows=rows,
        notes=(__doc__ or "").split("\n", 2)[2],
    )
    print(json.dumps(rows, indent=2))


def compare(
    strategy: str, name: str | None, class_name: str, *, seconds: dict[str, list[float]]
) -> dict[str, object]:
    """Return the row of one of our assignors, with its ratios of medians."""
    client = "JVM" if strategy == _JVM_ASSIGNOR else "kafka-python"
    median = statistics.median(seconds[strategy])
    jvm_group = seconds[_KAFKA + class_name]
    row: dict[str, object] = {
        "assignor": strategy,
        "client": client,
        "seconds": median,
        "seconds_max": max(seconds[strategy]),
    }
    if client != "JVM" and name is not None:
        same_client = seconds[f"kafka-python-{name}"]
        row |= {
            "kafka-python's assignor": name,
            "kafka-python's seconds": statistics.median(same_client),
            "kafka-python's seconds_max": max(same_client),
            "times kafka-python's": median / statistics.median(same_client),
        }
    return row | {
        "Kafka's class in a JVM group": class_name,
        "JVM group's seconds": statistics.median(jvm_group),
        "JVM group's seconds_max": max(jvm_group),
        "times the JVM group's": median / statistics.median(jvm_group),
        "rebalances": REBALANCES,
        "poll_ms": _POLL_MS,
    }


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
    settings = {"session_ms": 10_000, "metadata_ms": 300_000, "poll_ms": _POLL_MS}
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
