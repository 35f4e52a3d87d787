"""Secrets are hidden by the same rules in all texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streaming.kafka.settings import translate_settings
from streaming.redaction import SECRET_KEYS, SECRET_OPTIONS, Redactor, is_secret_key

HIDDEN_KEYS = [
    "kafka.sasl.jaas.config", "kafka.ssl.keystore.password", "kafka.ssl.keystore.key",
    "sasl.password", "sasl.username", "ssl.key.pem", "ssl.key.password",
    "sasl.oauthbearer.client.secret", "sasl.oauthbearer.extensions",
    "spark.hadoop.fs.azure.account.key.acme.dfs.core.windows.net", "spark.ssl.keyPassphrase",
    "kafka.basic.auth.user.info", "spark.hadoop.fs.azure.sas.box.acme",
    "spark.hadoop.fs.s3a.access.key", "eventhubs.connectionString", "fs.azure.accountKey",
]  # fmt: skip
SHOWN_KEYS = [
    "bootstrap.servers", "sasl.oauthbearer.token.endpoint.url", "keys", "key", "sasl.mechanism",
    "kafka.ssl.keystore.location", "spark.sql.shuffle.partitions", "subscribe", "security.protocol",
]  # fmt: skip


@pytest.mark.parametrize("key", HIDDEN_KEYS)
def test_a_value_under_a_secret_key_is_hidden(key):
    assert is_secret_key(key)
    redact = Redactor()
    redact.learn_secrets({"section": {key: "aV4lue/of+it"}})
    assert redact("it was aV4lue/of+it, or aV4lue%2Fof%2Bit") == "it was ***, or ***"


@pytest.mark.parametrize("key", SHOWN_KEYS)
def test_other_values_are_shown(key):
    assert not is_secret_key(key)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("s3a://AKIA:S3/SEC+RET@bucket/t", "s3a://***@bucket/t", id="S3"),
        pytest.param("s3a:/AKIA:S3/RET@bucket/t", "s3a:/***@bucket/t", id="S3 as a path"),
        pytest.param("ftp://ann:p@ss@h/a@v1,x", "ftp://***@h/a@v1,x", id="an @ in a password"),
        pytest.param(
            "SASL://a:b@h:1,SASL://c:d@i:2", "SASL://***@h:1,SASL://***@i:2", id="several"
        ),
        pytest.param("see https://ghp_x1y2@git.test/a", "see https://***@git.test/a", id="token"),
        pytest.param("abfss://box@acme.dfs.test/a", "abfss://box@acme.dfs.test/a", id="container"),
        pytest.param("http://broker:9092/a", "http://broker:9092/a", id="a port"),
        pytest.param("https://h/a?sv=1&sig=Zm9v%3D&x=1", "https://h/a?sv=1&sig=***&x=1", id="SAS"),
        pytest.param("Login required password='it is';", "Login required password=***;", id="JAAS"),
        pytest.param("AccountKey=Zm9v==;Endpoint=x", "AccountKey=***;Endpoint=x", id="Azure"),
        pytest.param("no password was given", "no password was given", id="a sentence"),
        ("spark.hadoop.fs.s3a.secret.key=x1", "spark.hadoop.fs.s3a.secret.key=***"),
        ("fs.s3a.access.key=x1", "fs.s3a.access.key=***"),
        ("fs.azure.account.key.acme=x1", "fs.azure.account.key.acme=***"),
        ("basic.auth.user.info=ann:x1", "basic.auth.user.info=***"),
        ("sasl.password: x1", "sasl.password: ***"),
        ("sasl.password: x1 is wrong", "sasl.password: *** is wrong"),
        ("ssl.key.password = x1, a.token -> x1", "ssl.key.password = ***, a.token -> ***"),
        ('{"password":"x\\"1", "a": 1}', '{"password":***, "a": 1}'),
        ("{'token': 'x1', 'a': 1}", "{'token': ***, 'a': 1}"),
        ('"{\\"password\\":\\"x1\\"}"', '"{\\"password\\":***}"'),
        ("Authorization: Basic eDE=", "Authorization: Basic ***"),
        ('"Authorization":"Bearer x1"', '"Authorization":"Bearer ***"'),
        ("api_key=x1 private_key=x1", "api_key=*** private_key=***"),
    ],
)
def test_text_in_the_shape_of_a_secret_is_hidden(text, shown):
    assert Redactor()(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "keys=3, partition key=3, keyDeserializer=x, tokens=3, max_tokens=100",
        "unexpected token: EOF, token = b.key",
        "job.yaml: kafka.sasl.password: Input should be a valid string",
        "password: it is missing",
        "TopicAuthorizationException: Not authorized",
        "spark.security.credentials.kafka.enabled=false",
        "sasl.oauthbearer.token.endpoint.url=http://h/",
    ],
)
def test_ordinary_words_are_shown(text):
    assert Redactor()(text) == text


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("kafka.sasl.jaas.config", 'M required password="ab\\"cd-efgh";', 'ab"cd-efgh'),
        ("kafka.sasl.jaas.config", "M required password='ab\\'cd-efgh';", "ab'cd-efgh"),
        ("basic.auth.user.info", "u:hunter2-long", "hunter2-long"),
        ("authorization", "Bearer eyJ.x-y", "eyJ.x-y"),
        ("password", "u:x-1", "dTp4LTE="),
        ("password", 'pä"ss-word', '{"why":"pä\\"ss-word"}'),
        ("password", 'pä"ss-word', '{"why":"p\\u00e4\\"ss-word"}'),
        ("password", "a<b&c d-e", "<p>a&lt;b&amp;c d-e</p> a%3Cb%26c+d-e"),
    ],
)
def test_a_secret_is_hidden_in_all_its_encodings(key, value, told):
    redact = Redactor()
    redact.learn_secrets({key: value})
    shown = redact(told)
    assert re.sub(r'\{"why":"|"\}|</?p>| ', "", shown) in ("***", "******")


def test_java_hides_the_same_settings():
    """`SecuredParams` has a copy of the pattern, because executors have no Python."""
    root = Path(__file__).parents[3]
    java = (root / "assignor_bridge/jvm/src/io/assignorbridge/kafka/SecuredParams.java").read_text()
    pattern = java.partition("SECRET_NAME =")[2].partition(");")[0]
    parts = re.findall(r'"((?:\\.|[^"\\])*)"', pattern)
    assert "".join(parts).replace(r"\\", "\\") == SECRET_KEYS


def test_a_password_of_an_address_is_also_hidden_alone():
    redact = Redactor()
    redact.learn_secrets({"sink": {"path": "s3a://AKIA:S3SECRET@bucket/orders"}})
    assert redact("403 for S3SECRET") == "403 for ***"


def test_values_of_variables_are_replaced_by_names_that_stay():
    redact = Redactor()
    redact.learn_variable("PASSWORD", "hunter22")
    redact.learn_variable("OTHER", "PASSWORD")
    redact.learn_secrets({"kafka.sasl.jaas.config": 'Login required password="hunter22";'})
    assert redact("hunter22 at s3a://hunter22:hunter22@b, password=hunter22") == (
        "${PASSWORD} at s3a://${PASSWORD}:${PASSWORD}@b, password=${PASSWORD}"
    )


def test_a_short_value_is_hidden_only_as_a_whole_word():
    redact = Redactor()
    redact.learn_secrets({"sasl.jaas.config": 'Login required username="ann" password=oh;'})
    assert redact("it cannot be that ann cannot") == "it cannot be that *** cannot"


@pytest.mark.parametrize("value", ["1", "true", "kafka", "100", "9092", "orders", "JSON", "---"])
def test_ordinary_values_of_the_environment_are_not_hidden(value):
    """Regression: the variable `FORMAT=kafka` changed `kafka.bootstrap.servers` in texts."""
    redact = Redactor()
    redact.learn_variable("WHAT", value)
    message = f"kafka.bootstrap.servers: batch 100 of 'orders' as JSON --- true at :9092 is {value}"
    assert redact(message) == message
    redact.learn_variable("DB_PASSWORD", "kafka")
    redact.learn_secrets({"ssl.key.password": "orders"})
    assert redact("kafka, orders") == "${DB_PASSWORD}, ***"


def test_a_key_of_many_lines_is_hidden_line_by_line():
    redact = Redactor()
    redact.learn_variable(
        "KEY", "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADAN\nBgkqhkiG9w0B\n-----END"
    )
    assert redact("at MIIEvgIBADAN") == "at ${KEY}"
    assert redact("  BgkqhkiG9w0B\n") == "  ${KEY}\n"


def test_a_kafka_client_and_a_job_hide_the_same_secrets():
    settings = translate_settings({
        "bootstrap.servers": "b:9092", "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="annabell" password="s3cr\\"t";',
    })  # fmt: skip
    assert settings.redact('user annabell, s3cr"t, or s3cr\\"t') == "user ***, ***, or ***"


@pytest.mark.parametrize(
    "part",
    ["a.", "http://h:80/a,", "password=", "password.", "a://b:", "https://", '"=', 'token\\"'],
)
def test_a_long_text_takes_linear_time(part):
    """With nested scans these would take hours, so the test's time limit would be exceeded."""
    redact = Redactor()
    redact.learn_secrets({"password": "hunter22"})
    assert "hunter22" not in redact(part * (200_000 // len(part)) + "hunter22")


@pytest.mark.parametrize(
    "login",
    [
        'Login required username="ann" password="hunter22";',
        'Login required\nusername="ann"\n  password="hunter22";\n',
        'Login required password="hun),ter22";',
    ],
    ids=["one line", "lines", "brackets"],
)
def test_options_in_the_plans_of_spark_are_hidden(login):
    """Spark uses the pattern for its UI and event log; a view's plan has all options."""
    plan = (
        f"~StreamingRelation DataSource(session,List(),Map(kafka.sasl.jaas.config -> {login}, "
        "subscribe -> t, kafka.ssl.key.password -> hunter22, assignor -> sticky, "
        f"kafka.sasl.jaas.config -> {login}),None), kafka, [key#7]\n"
        "  +- Other(token -> hunter22)\n"
    )
    assert re.sub(SECRET_OPTIONS, "***", plan) == (
        "~StreamingRelation DataSource(session,List(),Map(kafka.sasl.***, subscribe -> t, "
        "kafka.ssl.key.***, assignor -> sticky, kafka.sasl.***),None), kafka, [key#7]\n"
        "  +- Other(***)\n"
    )


def test_a_secret_that_is_not_valid_text_is_hidden():
    redactor = Redactor()
    redactor.learn_secrets({"password": "abc\udc80defgh"})
    assert redactor("login abc\udc80defgh failed") == "login *** failed"
