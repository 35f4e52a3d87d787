"""Stored states that are damaged, foreign or newer are refused with one line."""

from __future__ import annotations

import random
import re

import pytest

from assignor_bridge.model import Executor, OffsetRange
from checkpoints.state_text import decode
from tests.support.planner_process import send_request
from tests.support.planning import Snapshot, plan

HOSTS = {"0": "h1", "1": "h2", "2": "h3"}
RANGES = tuple(OffsetRange("t", p, 0, 10 + p % 3) for p in range(30))


def executors(hosts: dict[str, str]) -> tuple[Executor, ...]:
    return tuple(Executor(name, host, 2) for name, host in hosts.items())


def stored() -> str:
    state = plan(Snapshot(executors(HOSTS), RANGES)).state
    assert state is not None
    return state


def restore(text: str, topics: tuple[str, ...] = ("t",)) -> str | None:
    """Return why the state is unusable, or None."""
    return send_request({"type": "restore", "state": text, "topics": list(topics)})["why"]


def test_a_valid_state_is_restored_for_any_common_topic() -> None:
    assert restore(stored()) is None
    assert restore(stored(), ("a", "t")) is None


@pytest.mark.parametrize(
    ("text", "topics", "why"),
    [
        pytest.param("", ("t",), "truncated: 0 of at least 8 bytes", id="empty"),
        pytest.param(None, ("a", "b"), "belongs to topics t; .* reads a, b", id="other topics"),
    ],
)
def test_what_is_wrong_is_said(text: str | None, topics: tuple[str, ...], why: str) -> None:
    answer = restore(stored() if text is None else text, topics)
    assert re.search(why, str(answer))


def host_of_partitions(state: str | None) -> dict[int, str]:
    decoded = decode(state or "")
    host = [r.host for r in decoded.readers for _ in range(r.slots)]
    return {
        int(p): host[m] for p, m in zip(decoded.partition, decoded.member, strict=True) if m >= 0
    }


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({"0": "h2", "1": "h3", "2": "h1"}, id="the same ids on other hosts"),
        pytest.param({"7": "h3", "8": "h1", "9": "h2"}, id="new ids"),
        pytest.param({"0": "h1", "1": "h3", "5": "h2"}, id="some of both"),
    ],
)
def test_after_a_restart_partitions_return_to_their_host(after: dict[str, str]) -> None:
    before = stored()
    later = tuple(OffsetRange("t", r.partition, r.end, r.end + r.end - r.start) for r in RANGES)
    again = plan(Snapshot(executors(after), later, state=before))
    assert host_of_partitions(again.state) == host_of_partitions(before)
    assert again.metrics["movedPartitions"] == 0
    assert decode(again.state or "").generation == decode(before).generation + 1


def test_a_skewed_topic_on_many_hosts_stays_on_its_hosts_after_a_restart() -> None:
    """Two executors per host, all with new ids and more data: at least 95% stay."""
    hosts = [f"h{i:02}" for i in range(20)]
    before = {str(i): host for i, host in enumerate(hosts * 2)}
    after = {str(100 + i): host for i, host in enumerate(sorted(hosts * 2, reverse=True))}
    sizes = [10 + 50_000 // (1 + p) for p in range(1000)]
    state, start = None, [0] * len(sizes)
    for _ in range(3):
        ranges = tuple(OffsetRange("t", p, start[p], start[p] + n) for p, n in enumerate(sizes))
        state = plan(Snapshot(executors(before), ranges, state=state)).state
        start = [r.end for r in ranges]
    rng = random.Random(7)
    sizes = [max(1, round(n * rng.uniform(0.5, 2))) for n in sizes]
    later = tuple(OffsetRange("t", p, start[p], start[p] + n) for p, n in enumerate(sizes))

    again = plan(Snapshot(executors(after), later, state=state))

    old, new = host_of_partitions(state), host_of_partitions(again.state)
    stayed = sum(new[p] == host for p, host in old.items())
    assert len(old) == len(sizes)
    assert stayed >= 0.95 * len(sizes), stayed
    assert int(again.metrics["movedPartitions"]) <= 0.05 * len(sizes)
