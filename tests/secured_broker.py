"""A broker with an open port for the tests, one that asks for a login and one that speaks TLS."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from assignor_bridge import ivy
from streaming.kafka import embedded_setup
from streaming.kafka.embedded import EmbeddedBroker
from tests.support.broker_cluster import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    """Start a broker that heeds access control lists; who comes by the open port may do all.

    `users` have ann's password. SCRAM users are to be made once it runs; OAUTHBEARER takes
    unsecured tokens of anybody.
    """
    port, controller = free_ports(set())
    login, encrypted = free_ports({port, controller})
    tls, _ = free_ports({port, controller, login, encrypted})
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
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:CN=bob",
            "broker.rack": "s",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        }
        with EmbeddedBroker(port=port, properties=properties) as broker:
            own = {"bootstrap.servers": f"{host}:{encrypted}", "security.protocol": "SSL", **stores}
            yield Secured(broker, f"{host}:{login}", own, f"{host}:{tls}")


def make_stores(folder: Path) -> dict[str, str]:
    """Make a key store and a trust store in Java's own format; one identity serves both sides."""
    keytool, certificate = ivy.java_tool("keytool"), str(folder / "certificate")
    own, trusted = str(folder / "own.jks"), str(folder / "trusted.jks")
    word = ["-storetype", "JKS", "-storepass", STORE_PASSWORD, "-noprompt"]
    for arguments in (
        ["-genkeypair", "-alias", "bob", "-keyalg", "RSA", "-dname", "CN=bob", "-ext",
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
