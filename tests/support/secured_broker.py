"""Start a broker with an open port, a port with SASL authentication, and ports with TLS."""

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
#: Names of the user with the certificate and of TLS users without one.
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
    """A broker, its address for SASL/PLAIN (user ann), and the settings of TLS clients."""

    broker: EmbeddedBroker
    address: str
    #: Settings of a Java client with JKS stores; the broker requires its certificate.
    tls: dict[str, str]
    #: Address for TLS without client certificates.
    encrypted: str = ""


@contextlib.contextmanager
def start_secured(
    mechanisms: Sequence[str] = ("PLAIN",), users: Iterable[str] = ()
) -> Iterator[Secured]:
    """Start a broker with access control lists; only clients of the open port have all rights.

    `users` have ann's password. Create SCRAM users when the broker runs; OAUTHBEARER accepts
    unsecured tokens of all users.
    """
    port, controller = find_free_ports(set())
    login, encrypted = find_free_ports({port, controller})
    tls, _ = find_free_ports({port, controller, login, encrypted})
    host = embedded_setup.HOST
    credentials = " ".join(f'user_{user}="{PASSWORD}"' for user in ("ann", *users))
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
            ).replace(";", f" {credentials};"),
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
            client = {
                "bootstrap.servers": f"{host}:{encrypted}",
                "security.protocol": "SSL",
                **stores,
            }
            yield Secured(broker, f"{host}:{login}", client, f"{host}:{tls}")


class _Broker(EmbeddedBroker):
    """A broker with a class of the tests that names unauthenticated users by their listener."""

    def __init__(self, folder: Path, *, port: int, properties: dict[str, str]) -> None:
        super().__init__(port=port, properties=properties)
        self._classes = folder / "classes"

    def _start_once(self, jars: list[Path], *, is_last: bool) -> bool:
        command = [ivy.find_tool("javac"), "-cp", os.pathsep.join(map(str, jars)), "-d",
                   str(self._classes), str(JAVA / "ListenerPrincipals.java")]  # fmt: skip
        subprocess.run(command, check=True)
        return super()._start_once([*jars, self._classes], is_last=is_last)


def allow(
    broker: EmbeddedBroker, kind: ResourceType, name: str, *operations: str, user: str = "ann"
) -> None:
    """Grant a user operations on a resource, and wait until the broker applies them."""
    grant(broker, [create_rule(user, kind, name, operation) for operation in operations])


def create_rule(user: str, kind: ResourceType, name: str, operation: str) -> AclBinding:
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*",
        AclOperation[operation], AclPermissionType.ALLOW,
    )  # fmt: skip


def grant(broker: EmbeddedBroker, rules: Sequence[AclBinding]) -> None:
    """Create rules, and wait until the broker lists them, which means that it applies them."""
    admin = broker.admin()
    for future in admin.create_acls(list(rules)).values():
        future.result(30)
    all_rules = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    wait_until(lambda: set(rules) <= set(admin.describe_acls(all_rules).result(30)), "the rules")


def make_stores(folder: Path) -> dict[str, str]:
    """Create a JKS key store and trust store; broker and client share one identity."""
    keytool, certificate = ivy.find_tool("keytool"), str(folder / "certificate")
    keys, trusted = str(folder / "own.jks"), str(folder / "trusted.jks")
    flags = ["-storetype", "JKS", "-storepass", STORE_PASSWORD, "-noprompt"]
    for arguments in (
        ["-genkeypair", "-alias", "bob", "-keyalg", "RSA", "-dname", BOB, "-ext",
         f"SAN=ip:{embedded_setup.HOST}", "-keypass", STORE_PASSWORD, "-keystore", keys],
        ["-exportcert", "-alias", "bob", "-file", certificate, "-keystore", keys],
        ["-importcert", "-alias", "bob", "-file", certificate, "-keystore", trusted],
    ):  # fmt: skip
        subprocess.run([keytool, *arguments, *flags], check=True, capture_output=True)
    return {
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": keys,
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": trusted,
        "ssl.truststore.password": STORE_PASSWORD,
    }
