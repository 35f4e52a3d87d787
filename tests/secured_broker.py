"""A broker with an open port for the tests and one that asks for a login (SASL/PLAIN)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from streaming.kafka import embedded_setup
from streaming.kafka.embedded import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD = "s3cret-of-ann"  # noqa: S105  (of the embedded broker)
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="{user}" password="{password}";'
)


@contextlib.contextmanager
def start_secured() -> Iterator[tuple[EmbeddedBroker, str]]:
    """Give the broker and the address of the port that wants ann's login."""
    port, controller = embedded_setup.free_ports(None)
    login, _ = embedded_setup.free_ports(None)
    host, users = embedded_setup.HOST, f'user_ann="{PASSWORD}"'
    properties = {
        "listeners": f"PLAINTEXT://{host}:{port},SASL_PLAINTEXT://{host}:{login},"
        f"CONTROLLER://{host}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port},SASL_PLAINTEXT://{host}:{login}",
        "controller.quorum.voters": f"1@{host}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN.format(
            **{"user": "admin", "password": "x"}
        ).replace(";", f" {users};"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(port=port, properties=properties) as broker:
        yield broker, f"{host}:{login}"
