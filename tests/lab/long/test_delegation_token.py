"""A cluster that lets in only holders of a delegation token: our clients get Spark's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import ResourceType

from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.embedded_setup import HOST, find_free_ports
from tests.lab.long import token_driver
from tests.support import drivers
from tests.support.kafka_topics import Topic, fetch_committed
from tests.support.secured_broker import AUTHORIZER, allow

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.integration, pytest.mark.drivers]

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'
)


@pytest.fixture
def secured() -> Iterator[tuple[EmbeddedBroker, str]]:
    """A broker that heeds rights, with an open listener and one for SASL; the latter's address."""
    broker_port, controller = find_free_ports(None)
    sasl, _ = find_free_ports(None)
    listeners = {"PLAINTEXT": broker_port, "SASL": sasl}
    addresses = ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items())
    properties = {
        "listeners": f"{addresses},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": PLAIN,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": SCRAM,
        "delegation.token.secret.key": "of-this-test",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",  # who comes by the open listener
    }
    with EmbeddedBroker(port=broker_port, properties=properties) as broker:
        yield broker, f"{HOST}:{sasl}"


@pytest.mark.long
def test_consumers_and_commits_log_in_with_the_delegation_token_that_spark_holds(
    secured: tuple[EmbeddedBroker, str], checkpoint: str
) -> None:
    broker, sasl_address = secured
    Topic(broker.bootstrap_servers, "orders").create(3).fill([30, 20, 10])
    allow(broker, ResourceType.TOPIC, "orders", "READ", user="alice")
    allow(broker, ResourceType.GROUP, "by-token", "READ", user="alice")

    done = drivers.run(token_driver, sasl_address, "orders", checkpoint, limit_s=240)

    told = [line for line in done.stdout.splitlines() if line.startswith("PROGRESS ")]
    progress = json.loads(told[0].removeprefix("PROGRESS "))
    assert progress["numInputRows"] == 60
    assert progress["sources"][0]["metrics"]["assignor.strategy"] == "lag-aware-sticky"
    assert fetch_committed(broker.bootstrap_servers, "by-token") == {
        ("orders", partition): count for partition, count in enumerate([30, 20, 10])
    }
    assert "could not commit" not in done.stderr
    assert "alice-secret" not in done.stdout + done.stderr
