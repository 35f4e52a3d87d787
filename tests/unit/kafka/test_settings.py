"""Settings of Kafka's Java client are translated for librdkafka, or rejected without secrets."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from streaming.kafka.brokers import Brokers
from streaming.kafka.jaas import JaasError, parse_jaas
from streaming.kafka.settings import SettingsError, translate_settings

KAFKA = "org.apache.kafka.common.security"
PLAIN = f'{KAFKA}.plain.PlainLoginModule required username="ann" password="s3cr;t\\"=";'
SCRAM = f"{KAFKA}.scram.ScramLoginModule required username='ann' password=word;"
OAUTH = (
    f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required clientId=\"me\" clientSecret='hush' "
    'scope="read" extension_logicalCluster="lkc" extension_pool=p1;'
)
SASL = {"bootstrap.servers": "b:9092", "security.protocol": "SASL_PLAINTEXT"}
TLS = {"bootstrap.servers": "b:9092", "security.protocol": "SSL"}
OIDC = SASL | {
    "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": OAUTH,
    "sasl.login.callback.handler.class": f"{KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler",
    "sasl.oauthbearer.token.endpoint.url": "https://id/token",
}  # fmt: skip
NAMED = {"ssl.endpoint.identification.algorithm": "https"}


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        pytest.param(
            {"bootstrap.servers": "b:9092", "key.deserializer": "x", "max.poll.records": "5",
             "auto.offset.reset": "none", "group.id": "g", "isolation.level": "read_committed"},
            {"security.protocol": "plaintext"}, id="settings for consuming are ignored"),
        pytest.param(
            {"bootstrap.servers": "b:9092", "client.id": "me", "client.dns.lookup":
             "resolve_canonical_bootstrap_servers_only", "ssl.truststore.location": "unused.jks"},
            {"client.id": "me", "security.protocol": "plaintext",
             "client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
            id="TLS settings are ignored without TLS"),
        pytest.param(
            SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
            {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN",
             "sasl.username": "ann", "sasl.password": 's3cr;t"='}, id="PLAIN"),
        pytest.param(
            SASL | {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
                    "sasl.jaas.config": SCRAM},
            {"security.protocol": "sasl_ssl", "sasl.mechanisms": "SCRAM-SHA-512",
             "sasl.username": "ann", "sasl.password": "word", **NAMED}, id="SCRAM over TLS"),
        pytest.param(
            OIDC,
            {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "OAUTHBEARER",
             "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me",
             "sasl.oauthbearer.client.secret": "hush", "sasl.oauthbearer.scope": "read",
             "sasl.oauthbearer.token.endpoint.url": "https://id/token",
             "sasl.oauthbearer.extensions": "logicalCluster=lkc,pool=p1"}, id="OIDC"),
        pytest.param(
            OIDC | {"sasl.jaas.config": f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required ;",
                    "sasl.oauthbearer.client.credentials.client.id": "me",
                    "sasl.oauthbearer.client.credentials.client.secret": "hush"},
            {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "OAUTHBEARER",
             "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me",
             "sasl.oauthbearer.client.secret": "hush",
             "sasl.oauthbearer.token.endpoint.url": "https://id/token"},
            id="OIDC with Kafka 4.1's settings"),
        pytest.param(
            TLS | {"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM",
                   "ssl.endpoint.identification.algorithm": "",
                   "ssl.enabled.protocols": "TLSv1.3"},
            {"security.protocol": "ssl", "ssl.ca.location": "ca.pem",
             "ssl.endpoint.identification.algorithm": "none"}, id="TLS, names not checked"),
        pytest.param(
            TLS | {"ssl.keystore.location": "me.p12", "ssl.keystore.type": "PKCS12",
                   "ssl.keystore.password": "pw"},
            {"security.protocol": "ssl", "ssl.keystore.location": "me.p12",
             "ssl.keystore.password": "pw", **NAMED}, id="TLS, PKCS12 keystore"),
        pytest.param(
            TLS | {"ssl.keystore.location": "me.pem", "ssl.keystore.type": "PEM",
                   "ssl.key.password": "pw"},
            {"security.protocol": "ssl", "ssl.key.location": "me.pem",
             "ssl.certificate.location": "me.pem", "ssl.key.password": "pw", **NAMED},
            id="TLS, PEM keystore"),
        pytest.param(
            TLS | {"ssl.keystore.key": f"-----BEGIN PRIVATE KEY----- {'A' * 70}"
                                       " -----END PRIVATE KEY-----",
                   "ssl.keystore.certificate.chain":
                       "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n",
                   "ssl.truststore.certificates":
                       "-----BEGIN CERTIFICATE----- Qg== -----END CERTIFICATE-----"},
            {"security.protocol": "ssl",
             "ssl.key.pem": f"-----BEGIN PRIVATE KEY-----\n{'A' * 64}\n{'A' * 6}\n"
                            "-----END PRIVATE KEY-----\n",
             "ssl.certificate.pem":
                 "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n",
             "ssl.ca.pem": "-----BEGIN CERTIFICATE-----\nQg==\n-----END CERTIFICATE-----\n",
             **NAMED},
            id="TLS, PEM in the settings, broken into lines"),
    ],
)  # fmt: skip
def test_supported_settings_are_translated(java, expected):
    config = translate_settings(java).to_client_config()
    assert config == {"bootstrap.servers": "b:9092", "log_level": 0, **expected}


@pytest.mark.parametrize(
    "java",
    [
        pytest.param({"bootstrap.servers": "127.0.0.1:1"}, id="plaintext"),
        pytest.param(SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}, id="PLAIN"),
        pytest.param(SASL | {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM},
                     id="SCRAM"),
        pytest.param(TLS, id="TLS"),
    ],
)  # fmt: skip
def test_librdkafka_accepts_the_translated_names(java):
    AdminClient(translate_settings(java | {"bootstrap.servers": "127.0.0.1:1"}).to_client_config())


@pytest.mark.parametrize(
    ("java", "message"),
    [
        pytest.param({}, "'bootstrap.servers' is missing", id="no broker"),
        pytest.param({"bootstrap.servers": "b", "client.id": "hush\ud800"},
                     "'client.id' has half of a character", id="half of a character"),
        pytest.param({"bootstrap.servers": "b", "security.protocol": "hush"},
                     "'security.protocol' has an unknown value", id="protocol"),
        pytest.param(SASL, "'sasl.mechanism' is GSSAPI", id="Kerberos is the default"),
        pytest.param(SASL | {"sasl.mechanism": "PLAIN"}, "'sasl.jaas.config' is missing",
                     id="no credentials"),
        pytest.param(SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM},
                     "works with ", id="wrong module"),
        pytest.param(SASL | {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": "hush required;"},
                     "is not supported here", id="a custom module"),
        pytest.param(SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config":
                             PLAIN.replace("username", "user")}, "has no username", id="no user"),
        pytest.param(SASL | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config":
                             SCRAM.replace("=word", "=hush tokenauth=true")},
                     "delegation token", id="delegation token"),
        pytest.param(SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN[:-1]},
                     "does not end with a semicolon", id="no semicolon"),
        pytest.param(SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN,
                             "sasl.client.callback.handler.class": "hush"},
                     "'sasl.client.callback.handler.class' names a Java class", id="handler"),
        pytest.param(OIDC | {"sasl.login.callback.handler.class": "hush"},
                     "is OAUTHBEARER, which is supported here only with", id="custom OAUTHBEARER"),
        pytest.param(TLS | {"ssl.truststore.location": "hush"},
                     "'ssl.truststore.type' must be PEM", id="JKS truststore"),
        pytest.param(TLS | {"ssl.keystore.location": "hush"},
                     "'ssl.keystore.type' must be PEM or PKCS12", id="JKS keystore"),
        pytest.param(TLS | {"ssl.keystore.key": "hush"},
                     "'ssl.keystore.certificate.chain' is missing", id="key without chain"),
        pytest.param(TLS | {"ssl.cipher.suites": "hush"}, "'ssl.cipher.suites'", id="ciphers"),
        pytest.param(SASL | {"sasl.mechanism": "PLAIN", "config.providers": "file",
                             "sasl.jaas.config": PLAIN.replace("word", "${file:/hush:key}")},
                     "'sasl.jaas.config' refers to one of 'config.providers'", id="providers"),
        pytest.param(TLS | {"ssl.engine.factory.class": "hush"},
                     "'ssl.engine.factory.class' names a Java class", id="custom TLS engine"),
        pytest.param(TLS | {"ssl.endpoint.identification.algorithm": "hush"},
                     "'ssl.endpoint.identification.algorithm' has an unknown", id="LDAPS"),
    ],
)  # fmt: skip
def test_an_unsupported_setting_is_one_line_without_values(java, message):
    with pytest.raises(SettingsError, match=message) as refused:
        translate_settings(java)
    assert "hush" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("hush", "does not start"),
        ("Module hush;", "control flag"),
        ('Module required a="hush', "quote .* at character 19 is not closed"),
        ("Module required a=hush; Other required;", "one login module"),
        ("Module required a hush;", "key="),
        ("Module required a=;", "key="),
        ("Module required a= =;", "no value"),
        ("Module required /* hush", "quote or comment .* is not closed"),
        ("Module required a=hu/sh;", "slash at character 21 is not in quotes"),
    ],
)
def test_an_invalid_jaas_configuration_is_not_quoted(text, message):
    with pytest.raises(JaasError, match=message) as refused:
        parse_jaas(text)
    assert "hush" not in str(refused.value)


def test_comments_and_escapes_in_a_jaas_configuration():
    module = parse_jaas('M /* a */ required // b\n key="a\\tb\\101" other=\'x"y\';')
    assert module.options == {"key": "a\tbA", "other": 'x"y'}


@given(secret=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_no_secret_appears_in_a_message(secret):
    """The secret is put into each setting in turn, with marks, so that it is no ordinary word."""
    marked = f"§§{secret}§§"
    escaped = marked.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    login = f'{KAFKA}.plain.PlainLoginModule required username="u" password="{escaped}";'
    good = SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    settings = translate_settings(good)
    assert settings.to_client_config()["sasl.password"] == marked
    assert marked not in repr(settings) + str(settings)
    assert marked not in settings.redact(f"it said {marked}!")
    for name in (*good, "ssl.keystore.location", "ssl.keystore.key"):
        for broken in (TLS | {name: marked}, good | {name: marked}):
            try:
                message = repr(translate_settings(broken))
            except SettingsError as error:
                message = str(error) + repr(error)
            assert marked not in message


def test_errors_of_brokers_are_shown_without_credentials():
    brokers = object.__new__(Brokers)
    brokers.settings = translate_settings(
        SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    )
    error = KafkaError(KafkaError._AUTHENTICATION, 's3cr;t"= was refused')
    assert brokers.describe_error(error) == "*** was refused"
