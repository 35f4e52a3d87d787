"""Each way to log in, with no right but those needed: streams, groups, lag, offsets, the doctor."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import (
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from assignor_bridge import ivy
from streaming.cli import main
from tests.support.kafka_topics import Topic, fetch_committed
from tests.support.secured_broker import (
    BOB,
    ENCRYPTED,
    LOGIN,
    OAUTH_MODULE,
    PASSWORD,
    SCRAM_MODULE,
    STORE_PASSWORD,
    allow,
    start_secured,
)
from tests.support.spark_tools import assert_each_row_once, assert_planned, run_to_table, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.support.secured_broker import Secured

pytestmark = [pytest.mark.integration, pytest.mark.long]

MECHANISMS = ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER")
WAYS = [*MECHANISMS, "TLS", "mTLS"]
COUNTS = [30, 20, 10]

Settings = dict[str, str]


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """A broker that takes all of them."""
    with start_secured(MECHANISMS) as secured:
        admin = secured.broker.admin()
        ann = UserScramCredentialUpsertion(
            "ann", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
        )
        for done in admin.alter_user_scram_credentials([ann]).values():
            done.result(30)
        yield secured


@pytest.fixture(scope="module")
def tokens() -> Iterator[str]:
    """The address of who issues tokens to whoever has ann's password: unsecured ones (no key)."""

    class Issuer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            assert given == f"ann:{PASSWORD}"
            now = int(time.time())
            claims = {"sub": "ann", "iat": now, "exp": now + 3600, "scope": []}
            head, body = (
                base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
                for part in ({"alg": "none"}, claims)
            )
            token = {"access_token": f"{head}.{body}.", "token_type": "Bearer", "expires_in": 3600}
            answer = json.dumps(token).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Issuer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/token"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def stores(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The stores in forms that both clients read: PEM for trust, PKCS12 for one's own key."""
    folder, keytool = tmp_path_factory.mktemp("stores"), ivy.find_tool("keytool")
    pem, own = folder / "trusted.pem", folder / "own.p12"
    word = ["-storepass", STORE_PASSWORD, "-noprompt"]
    for arguments in (
        ["-exportcert", "-rfc", "-alias", "bob", "-file", str(pem),
         "-keystore", secured.tls["ssl.keystore.location"], *word],
        ["-importkeystore", "-srckeystore", secured.tls["ssl.keystore.location"],
         "-srcstorepass", STORE_PASSWORD, "-destkeystore", str(own), "-deststoretype", "PKCS12",
         "-deststorepass", STORE_PASSWORD, "-noprompt"],
    ):  # fmt: skip
        subprocess.run([keytool, *arguments], check=True, capture_output=True)
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pem),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(own),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
    }


def settings_of(
    way: str, secured: Secured, stores: Settings, tokens: str
) -> tuple[Settings, Settings]:
    """What a stream is given, and what a command is."""
    if way in ("TLS", "mTLS"):
        trust = {name: value for name, value in stores.items() if "truststore" in name}
        tls = {"bootstrap.servers": secured.encrypted, "security.protocol": "SSL", **trust}
        if way == "mTLS":
            tls |= {"bootstrap.servers": secured.tls["bootstrap.servers"], **stores}
        return tls, tls
    common = {
        "bootstrap.servers": secured.address, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": way,
    }  # fmt: skip
    if way == "OAUTHBEARER":  # the commands' client takes tokens from an issuer only
        stream = f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="ann";'
        command = f'{OAUTH_MODULE} required clientId="ann" clientSecret="{PASSWORD}";'
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        return {**common, "sasl.jaas.config": stream}, {
            **common, "sasl.jaas.config": command, "sasl.login.callback.handler.class": handler,
            "sasl.oauthbearer.token.endpoint.url": tokens,
        }  # fmt: skip
    login = LOGIN.format(user="ann", password=PASSWORD)
    if way == "SCRAM-SHA-512":
        login = f"{SCRAM_MODULE} {login.partition(' ')[2]}"
    both = {**common, "sasl.jaas.config": login}
    return both, both


@pytest.mark.parametrize("way", WAYS)
def test_streams_their_group_and_the_commands_log_in(
    way: str, spark: SparkSession, secured: Secured, stores: Settings, tokens: str,
    tmp_path: Path, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    name = f"way-{way.lower()}-{time.time_ns() % 10**6}"
    topic = Topic(secured.broker.bootstrap_servers, name).create(3)
    topic.fill(COUNTS)
    stream, command = settings_of(way, secured, stores, tokens)
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in command.items()))

    def said(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main.run([*words, "--command-config", str(file)])
        out, err = capfd.readouterr()
        assert PASSWORD not in out + err
        return code, out, err

    refused = f"assignor: group {name!r}: the user lacks Describe on Group {name!r}\n"
    assert said("lag", "--group", name) == (1, "", refused)

    user = {"TLS": ENCRYPTED, "mTLS": BOB}.get(way, "ann")
    allow(secured.broker, ResourceType.TOPIC, name, "READ", "DESCRIBE_CONFIGS", user=user)
    allow(secured.broker, ResourceType.GROUP, name, "READ", user=user)
    checkpoint, table = str(tmp_path / "checkpoint"), str(tmp_path / "table")
    kafka = {f"kafka.{key}": value for key, value in stream.items()}
    reached = Topic(kafka.pop("kafka.bootstrap.servers"), name)
    options = {"assignor": "lag-aware-sticky", "assignor.commitGroup": name,
               "assignor.onError": "fail", **kafka}  # fmt: skip
    progresses = run_to_table(spark, reached, checkpoint, table, **options)
    assert_planned(progresses)
    assert_each_row_once(spark, table, COUNTS)
    metrics = progresses[-1]["sources"][0]["metrics"]
    assert metrics["assignor.commitFailures"] == "0"
    wanted = {(name, p): count for p, count in enumerate(COUNTS)}
    wait_until(
        lambda: fetch_committed(topic.bootstrap_servers, name) == wanted, "the group's offsets"
    )

    for words, expected in (
        (["lag", "--checkpoint", checkpoint], r"3 partitions, 0 with lag"),
        (["lag", "--group", name], r"3 partitions, 0 with lag"),
        (["offsets", "--group", name], rf'"{name}":\{{"0":30,"1":20,"2":10\}}'),
        (["doctor", "--checkpoint", checkpoint], r"ok +query "),
    ):
        code, out, err = said(*words)
        assert (code, err) == (0, ""), (words, out, err)
        assert re.search(expected, out), out
