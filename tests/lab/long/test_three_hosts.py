"""Three hosts: partitions stay on theirs, whatever happens to drivers, executors and workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.long import three_hosts_driver
from tests.lab.long.three_hosts_driver import COUNTS, EARLY
from tests.support import drivers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.long]

LOST, ADDED, DIED = "127.0.0.3", "127.0.0.5", "127.0.0.2"


def test_partitions_stay_on_their_hosts(topic: Topic, tmp_path: Path) -> None:
    done = drivers.run(three_hosts_driver, topic.bootstrap_servers, topic.name, tmp_path)

    phases = {line["phase"]: line for line in drivers.parse_json_lines(done)}
    assert list(phases) == [
        "first", "second", "restarted", "lost", "back", "added", "died", "after"
    ]  # fmt: skip
    for number, (phase, line) in enumerate(phases.items(), start=1):
        expected = sum(EARLY) + (number - 1) * sum(COUNTS)
        assert line["rows"] == [expected, expected], phase
    for phase, metrics in ((name, line["metrics"]) for name, line in phases.items()):
        assert metrics["assignor.strategy"] == "lag-aware-sticky", phase
        assert metrics["assignor.fallbacks"] == "0", phase
        if phase != "died":
            assert float(metrics["assignor.localityHitRate"]) == 1, phase

    # A driver started again: other executors on the same hosts.
    before, after = phases["second"], phases["restarted"]
    assert not set(before["executors"]) & set(after["executors"])
    assert set(before["hosts"].values()) == set(after["hosts"].values())
    assert stayed(before, after) >= 0.95

    # A worker lost: its partitions go to the others, which keep their own.
    before, after = phases["restarted"], phases["lost"]
    assert LOST in before["hosts"].values()
    assert LOST not in after["hosts"].values()
    assert stayed(before, after, but=LOST) >= 0.95

    # Back, or a new host: what moves, moves there, and it is a fair share.
    for earlier, later, host in (("lost", "back", LOST), ("back", "added", ADDED)):
        before, after = phases[earlier], phases[later]
        assert host not in before["hosts"].values()
        moved = {p: h for p, h in after["hosts"].items() if h != before["hosts"][p]}
        elsewhere = [p for p, h in moved.items() if h != host]
        assert len(elsewhere) <= 0.05 * len(after["hosts"]), elsewhere
        fair = len(after["hosts"]) / len(after["executors"])
        assert 0.5 * fair <= len(moved) <= 1.5 * fair

    # A host that dies in the middle of a batch: each row once, and the others keep their own.
    before, after = phases["died"], phases["after"]
    assert DIED in before["hosts"].values()
    assert DIED not in after["hosts"].values()
    assert stayed(before, after, but=DIED) >= 0.95


def stayed(before: dict[str, Any], after: dict[str, Any], but: str = "") -> float:
    """Share of the partitions that are on the host that had them; without those of one host."""
    hosts = {p: host for p, host in before["hosts"].items() if host != but}
    return sum(after["hosts"][p] == host for p, host in hosts.items()) / len(hosts)
