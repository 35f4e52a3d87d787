"""Racks of replicas, as a real broker tells them, in the bill of `assignor estimate`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from assignor_bridge.model import Partition
from streaming.cli import main
from streaming.kafka.brokers import Brokers
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.replicas import fetch_replica_racks
from tests.unit.streaming.checkpoints import write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.mark.parametrize("follows", [True, False], ids=["selector", "none"])
def test_a_broker_tells_where_replicas_are_and_who_may_be_read(
    follows: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = {
        "broker.rack": "zone-a",
        **({"replica.selector.class": SELECTOR} if follows else {}),
    }
    with EmbeddedBroker(properties=properties) as broker:
        broker.create_topic("orders", partitions=2)
        known = Brokers({"bootstrap.servers": broker.bootstrap_servers}, 10.0)
        racks, followers = fetch_replica_racks(known, {"orders", "gone"})
        assert racks == {Partition("orders", n): ("zone-a",) for n in (0, 1)}
        assert followers == follows
        assert [note for note in known.notes if "gone" in note]
        checkpoint = write_checkpoint(
            tmp_path / "c", [{"orders": {0: 9 * n, 1: n}} for n in (1, 2)]
        )
        file = tmp_path / "racks.json"
        file.write_text(json.dumps({"executors": {"h1": "zone-b"}}))
        call = [
            "estimate",
            "--checkpoint",
            str(checkpoint),
            "--racks",
            str(file),
            "--assignors",
            "spark",
        ]
        assert main.run([*call, "--bootstrap-server", broker.bootstrap_servers, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["zones"]["mappings"][0]["crossZoneShare"] == 1.0
    said = " ".join(found["assumptions"])
    assert "and the brokers" in said
    assert ("the brokers have no rack-aware replica selector" in said) != follows


def test_a_broker_without_a_rack_tells_none(topic: Topic) -> None:
    topic.create(2)
    known = Brokers({"bootstrap.servers": topic.bootstrap_servers}, 10.0)
    assert fetch_replica_racks(known, {topic.name}) == ({}, False)
    assert fetch_replica_racks(known, set()) == ({}, None)  # nobody was asked
