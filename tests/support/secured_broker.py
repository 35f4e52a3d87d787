"""A broker with an open port for the tests, one that asks for a login and one that speaks TLS."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from assignor_bridge import ivy
from streaming.kafka import embedded_setup
from streaming.kafka.embedded import EmbeddedBroker
from tests.support.broker_cluster import find_free_ports
from tests.support.java_program import JAVA
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
#: Who has the certificate, and who comes by TLS without one.
BOB, ENCRYPTED = "CN=bob", "encrypted"
PASSWORD = "s3cret-of-ann"  # noqa: S105  (of the embedded broker)
STORE_PASSWORD = "s3cret-of-the-store"  # noqa: S105  (the same)
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="{user}" password="{password}";'
)


class Secured(NamedTuple):
    """The broker, the address that wants ann's login (SASL/PLAIN), and how TLS clients reach it."""

    broker: EmbeddedBroker
    address: str
    #: Settings of a Java client whose stores are JKS files; the broker asks for its certificate.
    tls: dict[str, str]
    #: The address that speaks TLS and asks for no certificate.
    encrypted: str = ""


@contextlib.contextmanager
def start_secured(
    mechanisms: Sequence[str] = ("PLAIN",), users: Iterable[str] = ()
) -> Iterator[Secured]:
    """Start a broker that heeds access control lists; only who comes by the open port may do all.

    `users` have ann's password. SCRAM users are to be made once it runs; OAUTHBEARER takes
    unsecured tokens of anybody.
    """
    port, controller = find_free_ports(set())
    login, encrypted = find_free_ports({port, controller})
    tls, _ = find_free_ports({port, controller, login, encrypted})
    host = embedded_setup.HOST
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in ("ann", *users))
    listeners = (
        f"PLAINTEXT://{host}:{port},SASL_PLAINTEXT://{host}:{login},SSL://{host}:{encrypted},"
        f"TLS://{host}:{tls}"
    )
    modules = {"scram-sha-512": SCRAM_MODULE, "oauthbearer": OAUTH_MODULE}
    with tempfile.TemporaryDirectory(prefix="assignor-stores-") as folder:
        stores = make_stores(Path(folder))
        properties = {
            "listeners": f"{listeners},CONTROLLER://{host}:{controller}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": f"1@{host}:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,TLS:SSL",
            "sasl.enabled.mechanisms": ",".join(mechanisms),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN.format(
                **{"user": "admin", "password": "x"}
            ).replace(";", f" {known};"),
            **{
                f"listener.name.sasl_plaintext.{name}.sasl.jaas.config": f"{of} required;"
                for name, of in modules.items()
            },
            "ssl.client.auth": "required",
            "listener.name.tls.ssl.client.auth": "none",
            **stores,
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:ANONYMOUS",
            "principal.builder.class": "ListenerPrincipals",
            "broker.rack": "s",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        }
        with _Broker(Path(folder), port=port, properties=properties) as broker:
            own = {"bootstrap.servers": f"{host}:{encrypted}", "security.protocol": "SSL", **stores}
            yield Secured(broker, f"{host}:{login}", own, f"{host}:{tls}")


class _Broker(EmbeddedBroker):
    """With a class of the tests that tells apart who comes without a login."""

    def __init__(self, folder: Path, *, port: int, properties: dict[str, str]) -> None:
        super().__init__(port=port, properties=properties)
        self._classes = folder / "classes"

    def _start_once(self, jars: list[Path], *, is_last: bool) -> bool:
        command = [ivy.java_tool("javac"), "-cp", os.pathsep.join(map(str, jars)), "-d",
                   str(self._classes), str(JAVA / "ListenerPrincipals.java")]  # fmt: skip
        subprocess.run(command, check=True)
        return super()._start_once([*jars, self._classes], is_last=is_last)


def allow(
    broker: EmbeddedBroker, kind: ResourceType, name: str, *operations: str, user: str = "ann"
) -> None:
    """Give a user rights; they are in force when this returns."""
    grant(broker, [create_rule(user, kind, name, operation) for operation in operations])


def create_rule(user: str, kind: ResourceType, name: str, operation: str) -> AclBinding:
    """Return the rule that lets a user do one thing."""
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*",
        AclOperation[operation], AclPermissionType.ALLOW,
    )  # fmt: skip


def grant(broker: EmbeddedBroker, rules: Sequence[AclBinding]) -> None:
    """Make rules, and wait until the broker goes by them: it answers with those that it heeds."""
    admin = broker.admin()
    for done in admin.create_acls(list(rules)).values():
        done.result(30)
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    wait_until(lambda: set(rules) <= set(admin.describe_acls(every).result(30)), "the rules")


def make_stores(folder: Path) -> dict[str, str]:
    """Make a key store and a trust store in Java's own format; one identity serves both sides."""
    keytool, certificate = ivy.java_tool("keytool"), str(folder / "certificate")
    own, trusted = str(folder / "own.jks"), str(folder / "trusted.jks")
    word = ["-storetype", "JKS", "-storepass", STORE_PASSWORD, "-noprompt"]
    for arguments in (
        ["-genkeypair", "-alias", "bob", "-keyalg", "RSA", "-dname", BOB, "-ext",
         f"SAN=ip:{embedded_setup.HOST}", "-keypass", STORE_PASSWORD, "-keystore", own],
        ["-exportcert", "-alias", "bob", "-file", certificate, "-keystore", own],
        ["-importcert", "-alias", "bob", "-file", certificate, "-keystore", trusted],
    ):  # fmt: skip
        subprocess.run([keytool, *arguments, *word], check=True, capture_output=True)
    return {
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": own,
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": trusted,
        "ssl.truststore.password": STORE_PASSWORD,
    }
