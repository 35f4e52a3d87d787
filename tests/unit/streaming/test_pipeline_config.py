"""A job's config: substitution, redaction, and one-line errors."""

from __future__ import annotations

import copy
import os
import re
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

from streaming.cli import main
from streaming.delta.spark_settings import EXTENSION
from streaming.pipeline.config.job import build_json_schema
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.config.referenced_files import check_files, import_function, read_seeds
from streaming.pipeline.config.yaml_text import apply_overrides, parse_yaml
from streaming.pipeline.job_errors import ConfigError
from streaming.pipeline.spark.job_session import _join_extensions
from tests.support.job_reference import insert_tables

ROOT = Path(__file__).parents[3]
GOOD: dict[str, Any] = {
    "source": {
        "kafka.bootstrap.servers": "broker:9092",
        "subscribe": "orders",
        "records": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
    },
    "sink": {"path": "/tables/orders", "mode": "upsert", "keys": ["id"]},
    "checkpoint": "/checkpoints/orders",
}


def changed(path: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(GOOD)
    here = data
    *parents, last = path.split("/")
    for parent in parents:
        here = here[parent]
    if value is None:
        del here[last]
    else:
        here[last] = value
    return data


def test_a_good_job_loads_and_fits_the_json_schema():
    loaded = load_job(GOOD, environment={})
    assert loaded.job.all_sources["records"].spark_options["startingOffsets"] == "earliest"
    assert "  startingOffsets: earliest\n" in loaded.to_yaml()
    at_time = {"a": {**GOOD["source"], "startingTimestamp": 5}, "b": GOOD["source"]}
    several = {key: value for key, value in GOOD.items() if key != "source"} | {"sources": at_time}
    several["sink"] = {**GOOD["sink"], "from": "a"}
    assert load_job(several, environment={}).to_yaml().count("startingOffsets: earliest") == 1
    assert loaded.job.interval is None
    jsonschema.validate(GOOD, build_json_schema())


@pytest.mark.parametrize(
    ("assignor", "with_session", "without"),
    [
        pytest.param(None, None, "lag-aware-sticky", id="not named: the session's, else ours"),
        pytest.param("sticky", "sticky", "sticky", id="named"),
        pytest.param("none", "none", "none", id="none opts out of the session's"),
    ],
)
def test_the_assignor_of_a_source_overrides_the_sessions(assignor, with_session, without):
    """Regression: `none` was dropped, so the session's assignor was used."""
    config = changed("source/assignor", assignor) if assignor else GOOD
    [source] = load_job(config, environment={}).job.all_sources.values()
    assert source.get_assignor(session_has_one=True) == with_session
    assert source.get_assignor(session_has_one=False) == without


def test_options_of_a_custom_assignor_are_accepted_only_with_it():
    own = changed("source/assignor", "mine:Backwards")
    own["source"]["assignor.mine.maxAge"] = 5
    [source] = load_job(own, environment={}).job.all_sources.values()
    assert source.spark_options["assignor.mine.maxAge"] == "5"
    jsonschema.validate(own, build_json_schema())
    own["source"]["assignor"] = "sticky"
    with pytest.raises(ConfigError, match=r"source: .*unknown option 'assignor\.mine\.maxAge'"):
        load_job(own, environment={})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        pytest.param(
            "source/assignor",
            "sticky,none",
            "'none' keeps Spark's default assignment",
            id="none in a list",
        ),
        pytest.param(
            "checkpont", "x", "unknown key 'checkpont'; did you mean 'checkpoint'?", id="key"
        ),
        pytest.param(
            "source/subscrib",
            "x",
            "source: unknown key 'subscrib'; did you mean 'subscribe'?",
            id="option of Spark's",
        ),
        pytest.param(
            "source/assignor.splt", "x", "did you mean 'assignor.split'?", id="option of ours"
        ),
        pytest.param("source/assignor.split", "x", "true or false is expected", id="value of ours"),
        pytest.param(
            "sink/key", ["id"], "sink: unknown key 'key'; did you mean 'keys'?", id="sink key"
        ),
        pytest.param(
            "sink/compact_every", "often", "sink.compact_every: a whole number", id="type"
        ),
        pytest.param("sink/compact_every", True, "not true or false", id="a flag"),
        pytest.param("metrics", {"port": True}, "metrics.port: a whole number", id="a port"),
        pytest.param("metrics", {"address": "::1"}, "'address' needs a 'port'", id="no port"),
        pytest.param("source/records/schema_id", 1, "'schema_id' needs 'format: avro'", id="id"),
        pytest.param("source/records", {"key": "k INT"}, "'key' needs a format", id="raw"),
        pytest.param(
            "source/records", {"bad_records": "drop"}, "'bad_records' needs a format", id="raw bad"
        ),
        pytest.param(
            "source/includeHeaders",
            True,
            "'includeHeaders' is only for 'format: raw'",
            id="headers",
        ),
        pytest.param("source", {1: "x"}, "source: key 1 is not text", id="a number for a key"),
        pytest.param("sink/type", "dleta", "sink: 'type' is unknown: delta", id="sink type"),
        pytest.param("sink/keys", None, "mode 'upsert' needs 'keys'", id="no keys"),
        pytest.param("sink/target_file_size", "big", "a size such as '128MB'", id="no size"),
        pytest.param("checkpoint", None, "'checkpoint' is missing", id="no checkpoint"),
        pytest.param(
            "source/kafka.bootstrap.servers",
            None,
            "source: 'kafka.bootstrap.servers' is missing",
            id="no broker",
        ),
        pytest.param(
            "metrics",
            {"prot": 1},
            "metrics: unknown key 'prot'; did you mean 'port'?",
            id="metrics",
        ),
        pytest.param("source/subscribe", None, "exactly one of 'subscribe'", id="no topic"),
        pytest.param("source/records/schema", None, "needs a 'schema'", id="no schema"),
        pytest.param(
            "source/records/bad_records", "dead_letter", "must be used together", id="no letter"
        ),
        pytest.param("trigger", "sometimes", "processingTime 10 seconds", id="trigger"),
        pytest.param("sink/from", "nowhere", "'nowhere' is unknown: use one of records", id="from"),
        pytest.param("checkpoint", "${NOT_SET}", "variable 'NOT_SET' is not set", id="environment"),
        pytest.param(
            "source/assignor",
            "lag-aware-stikcy",
            "source: unknown assignor 'lag-aware-stikcy'; did you mean 'lag-aware-sticky'?",
            id="assignor",
        ),
        *(
            pytest.param(
                f"source/{name}",
                value,
                f"source: option '{name}' is '{value}': {words}",
                id=f"{name} {value}",
            )
            for name, value, words in (
                ("startingOffsets", "earlyest", "earliest, latest, or offsets"),
                (
                    "startingOffsets",
                    '{"orders": {"0": -3}}',
                    "earliest, latest, or offsets",
                ),
                ("startingOffsets", '{"orders": [0]}', "earliest, latest, or offsets"),
                ("startingTimestamp", "2024-01-01", "milliseconds since 1970"),
                ("startingOffsetsByTimestamp", '{"orders": {"0": "x"}}', "milliseconds such as"),
                ("startingOffsetsByTimestampStrategy", "first", "error or latest"),
                ("failOnDataLoss", "no", "true or false is expected"),
                ("includeHeaders", "yes", "true or false is expected"),
                ("maxOffsetsPerTrigger", "10k", "a whole number from 1"),
                ("maxOffsetsPerTrigger", "1000.0", "a whole number from 1"),
                ("maxOffsetsPerTrigger", "0", "a whole number from 1"),
                ("maxOffsetsPerTrigger", "-5", "a whole number from 1"),
                ("minOffsetsPerTrigger", "0", "a whole number from 1"),
                ("maxTriggerDelay", "soon", "a time such as 15m"),
                ("minPartitions", "two", "a whole number from 1"),
                ("kafkaConsumer.pollTimeoutMs", "10s", "a whole number from 0"),
                ("fetchOffset.numRetries", "-1", "a whole number from 0"),
            )
        ),
        pytest.param("source/subscribe", "or ders", "'or ders' is not a topic name", id="topic"),
        pytest.param("source/subscribe", ["a", "b"], "write a list as text: 'a,b'", id="topics"),
        pytest.param("sink/path", "", "sink.path: a folder or URL is expected", id="no path"),
        pytest.param("sink/path", "~/lake", "write ${HOME}, not ~ or $HOME", id="home"),
        pytest.param("checkpoint", "$HOME/c", "checkpoint: a folder or URL is expected", id="$"),
        pytest.param("sink", {"table": "a b"}, "sink.table: the name of a table such", id="table"),
        pytest.param(
            "sink",
            {"type": "kafka", "topic": "a b"},
            "sink.topic: 'a b' is not a topic name",
            id="topic of a sink",
        ),
        pytest.param("sink", "t/orders", "sink: a mapping is expected", id="a path for a sink"),
        pytest.param("spark", {"master": "local[1]"}, "use 'spark.master'", id="setting"),
        pytest.param(
            "transform", {"python": "steps"}, "such as 'package.module:function'", id="function"
        ),
        pytest.param("name", 12, "name: text in quotes is expected", id="a number for a name"),
    ],
)
def test_a_config_error_is_one_line_with_the_key_path(path, value, message):
    with pytest.raises(ConfigError) as raised:
        load_job(changed(path, value), environment={})
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert raised.value.exit_code == 2


def test_the_command_prints_the_file_and_key_and_exits_with_2(tmp_path, capsys):
    (tmp_path / "orders.yaml").write_bytes(orjson.dumps(changed("sink/compact_every", "often")))
    assert main.run(["run", str(tmp_path / "orders.yaml"), "--dry-run"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("assignor: orders.yaml: sink.compact_every: ")


def test_a_duplicate_key_is_an_error(tmp_path):
    (tmp_path / "job.yaml").write_text("name: a\nname: b\n")
    with pytest.raises(ConfigError, match=r"job.yaml: line 2: duplicate key 'name'"):
        load_job(tmp_path / "job.yaml")


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
)
MERGED = "\n".join(
    ["a0: &a0 {k: v}"]
    + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 9)]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(BOMB, "line 4: more than 10,000 values with aliases expanded", id="bomb"),
        pytest.param(MERGED, "line 5: more than 10,000 values", id="bomb of merged keys"),
        pytest.param("name: &a {b: *a}", "line 1: an alias refers to a value", id="circle"),
        pytest.param("name: !!int abc", "looks like 'int' is invalid", id="no int"),
        pytest.param("name: !!set 1", "line 1: a mapping is expected", id="no set"),
        pytest.param("name: !!timestamp", "looks like 'timestamp' is invalid", id="no time"),
        pytest.param("name: !!bool maybe", "looks like 'bool' is invalid", id="no bool"),
        pytest.param("name: !!float x", "looks like 'float' is invalid", id="no float"),
        pytest.param(f"a:\n  {'[' * 3_000}", "line 2: nested deeper than 50 levels", id="deep"),
        pytest.param("[a]: b", "line 1: a key is not text", id="a list for a key"),
        pytest.param("name: !!python/object:os.system x", "line 1, column 7: not",
                     id="Python"),
        pytest.param("name: *nowhere", "column 7: not valid YAML: found undefined alias '***'",
                     id="alias"),
        pytest.param("a" * 1_000_001, "it has more than 1,000,000 bytes", id="endless"),
    ],
)  # fmt: skip
def test_invalid_yaml_is_one_line_with_its_position(text, message, tmp_path, capsys):
    (tmp_path / "job.yaml").write_text(text)
    assert main.run(["run", str(tmp_path / "job.yaml"), "--dry-run"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("assignor: ")
    assert message in line
    assert len(line) < 300


@pytest.mark.parametrize(
    "text",
    [
        "1.10",
        "NO",
        "123.4560",
        "on",
        "2024-01-01",
        "True",
        ".5",
        "7",
        "012",
        "0x1f",
        "1_000",
        "20:30",
    ],
)
def test_an_unquoted_value_keeps_its_text(text, tmp_path):
    """Regression: a job read the topic 1.1 instead of 1.10, and a password lost a digit."""
    config = orjson.dumps(changed("source/kafka.ssl.key.password", "HERE")).decode()
    (tmp_path / "job.yaml").write_text(config.replace('"HERE"', f" {text}"))
    [source] = load_job(tmp_path / "job.yaml", environment={}).job.all_sources.values()
    assert source.options["kafka.ssl.key.password"] == text
    sink = load_job(GOOD, overrides=["sink.schema_evolution=on", "sink.compact_every=12"]).job.sink
    assert (sink.schema_evolution, sink.compact_every) == (True, 12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "sink: {path: a\ntrigger: x}",
            "line 2, column 8: not valid YAML: expected ',' or '}',",
        ),
        ("a: [1\nb: 2", "line 2, column 2: not valid YAML: expected ',' or ']', but got ':'"),
        ("a: \tb\n\tc: d", "line 1, column 4: not valid YAML: found character '\\t' that cannot"),
    ],
)
def test_a_yaml_error_has_its_column_and_the_expected_token(text, message, tmp_path, capsys):
    """Regression: all text between the first and the last quote of the message was hidden."""
    (tmp_path / "job.yaml").write_text(text)
    assert main.run(["run", str(tmp_path / "job.yaml"), "--dry-run"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("value", ["&a [*a]", "[" * 3_000])
def test_an_invalid_value_of_set_is_one_line_with_its_position(value):
    with pytest.raises(ConfigError, match=r"^config: --set name: line 1: ") as raised:
        load_job(GOOD, overrides=[f"name={value}"], environment={})
    assert len(str(raised.value).splitlines()) == 1


def test_set_changes_only_one_use_of_an_alias(tmp_path):
    (tmp_path / "job.yaml").write_text(
        "source: {kafka.bootstrap.servers: 'b:1', subscribe: t}\n"
        "checkpoint: c\n"
        "sinks: {a: &sink {path: x}, b: *sink}\n"
    )
    job = load_job(tmp_path / "job.yaml", overrides=["sinks.b.path=y"], environment={}).job
    assert (job.sinks["a"].path, job.sinks["b"].path) == ("x", "y")


def test_variables_defaults_and_escaped_dollars_are_substituted():
    data = changed("checkpoint", "${A}/${B:-b}/$${C}")
    assert load_job(data, environment={"A": "s3://x"}).job.checkpoint == "s3://x/b/${C}"


def test_set_changes_dotted_and_nested_keys():
    before = copy.deepcopy(GOOD)
    job = load_job(
        GOOD,
        overrides=[
            "source.kafka.bootstrap.servers=other:1",
            "sink.compact_every=5",
            "trigger=5 seconds",
        ],
        environment={},
    ).job
    assert job.all_sources["records"].options["kafka.bootstrap.servers"] == "other:1"
    assert job.sink.compact_every == 5
    assert job.interval == "5 seconds"
    assert before == GOOD, "the caller's own"


@pytest.mark.parametrize(
    ("assignment", "path"),
    [
        pytest.param("spark.master=v", ["spark", "spark.master"], id="a setting"),
        pytest.param("spark.spark.master=v", ["spark", "spark.master"], id="with its section"),
        pytest.param("spark.spark.hadoop.a.b=v", ["spark", "spark.hadoop.a.b"], id="long"),
        pytest.param("kafka.client.id=v", ["kafka.client.id"], id="of all sources"),
        pytest.param("seed.my.topic.file=v", ["seed", "my.topic", "file"], id="a topic with dots"),
        pytest.param('seed."an.other".file=v', ["seed", "an.other", "file"], id="a new one"),
        pytest.param("seed.'a=b'.file=v", ["seed", "a=b", "file"], id="in quotes"),
        pytest.param("sources.kafka.subscribe=v", ["sources", "kafka", "subscribe"], id="a name"),
        pytest.param("metrics.cluster_name=v", ["metrics", "cluster_name"], id="an empty section"),
        pytest.param("name=a=v", ["name"], id="an equals sign in the value"),
        pytest.param(
            "source.assignor.split=v", ["source", "assignor.split"], id="below a key with a value"
        ),
        pytest.param("spark.speculation.a=v", ["spark", "spark.speculation.a"], id="a setting's"),
    ],
)
def test_set_can_change_every_key(assignment, path):
    there = {
        "seed": {"my.topic": {"partitions": 2}, "my": {}}, "sources": {"kafka": {}},
        "metrics": None, "source": {"assignor": "sticky"},
        "spark": {"spark.speculation": True},
    }  # fmt: skip
    here: Any = apply_overrides(there, [assignment])
    for key in path:
        here = here[key]
    assert here == ("a=v" if path == ["name"] else "v")


@pytest.mark.parametrize("assignment", ["name", "=x", "sink..path=x", "sink.=x", "name.below=x"])
def test_an_invalid_path_of_set_is_one_line(assignment):
    with pytest.raises(ConfigError, match=r"^config: --set('|: key| ')") as raised:
        load_job({**GOOD, "name": "a"}, overrides=[assignment], environment={})
    assert len(str(raised.value).splitlines()) == 1


SECRETS = {
    "source/kafka.sasl.jaas.config": 'Login required password="hunter22";',
    "source/kafka.ssl.truststore.password": "${PASSWORD}",
    "source/kafka.ssl.keystore.password": "${PASSWORD}s3cr3t-tail",
    "source/kafka.ssl.key.password": "${PASSWORD} s3cr3t-tail",
    "sink/path": "${ROOT_FOLDER}/orders",
}


def test_secrets_and_environment_values_are_hidden():
    data = copy.deepcopy(GOOD)
    for path, value in SECRETS.items():
        first, last = path.split("/")
        data[first][last] = value
    environment = {"PASSWORD": "pass-word", "ROOT_FOLDER": "s3://hidden-bucket"}
    loaded = load_job(data, environment=environment)
    told = loaded.to_yaml() + str(
        loaded.make_error("sink", "s3://hidden-bucket/orders, hunter22 and pass-word")
    )
    for secret in ("hunter22", "pass-word", "hidden-bucket", "s3cr3t-tail"):
        assert secret not in told
    assert "kafka.ssl.truststore.password: ${PASSWORD}" in told
    assert "${ROOT_FOLDER}/orders" in told
    data["sink"]["compact_every"] = "${PASSWORD}"
    with pytest.raises(ConfigError) as raised:
        load_job(data, environment=environment)
    assert "pass-word" not in str(raised.value)
    with pytest.raises(ConfigError, match=r"\$\{PLACE\} must end in \.prom"):
        load_job(
            changed("metrics", {"textfile": "${PLACE}"}), environment={"PLACE": "/top99/x.txt"}
        )


def test_an_unreachable_broker_is_one_line_before_spark_starts(tmp_path, capsys):
    data = changed("source/kafka.bootstrap.servers", "127.0.0.1:1")
    (tmp_path / "job.yaml").write_bytes(orjson.dumps(data))
    assert main.run(["run", str(tmp_path / "job.yaml")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("assignor: job.yaml: source: no broker answers at '127.0.0.1:1'")


def test_a_metrics_port_in_use_is_one_line_before_spark_starts(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        data = changed("metrics", {"port": taken.getsockname()[1]})
        (tmp_path / "job.yaml").write_bytes(orjson.dumps(data))
        assert main.run(["run", str(tmp_path / "job.yaml")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "is in use by another process: set metrics.port" in line


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ("${HOST}.svc:9092", "'.svc:9092': host:port is expected"),
        ("a..b:9092", "'a..b:9092': host:port is expected"),
        ("${HOST}:9092", "':9092': host:port is expected"),
        ("host", "'host': host:port is expected"),
        ("HTTP://a:9092", "'HTTP://a:9092': host:port is expected, not an HTTP URL"),
        ("127.0.0.1:1,host:99999", "'host:99999': the port must be from 1 to 65535"),
    ],
)
def test_an_invalid_broker_address_is_one_line(servers, message):
    """Regression: an empty variable in it caused a traceback."""
    config = changed("source/kafka.bootstrap.servers", servers)
    with pytest.raises(ConfigError, match=r"^config: source: kafka.bootstrap.servers '") as raised:
        load_job(config, environment={"HOST": ""})
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_settings_and_options_of_readers_may_be_numbers_or_booleans():
    """Regression: `--set spark.sql.shuffle.partitions=8` was refused."""
    options = {"header": True, "maxColumns": 9}
    records = {"format": "csv", "schema": "id INT", "options": options}
    data = changed("source/records", records)
    data["spark"] = {"spark.ui.enabled": False, "spark.memory.fraction": 0.5}
    jsonschema.validate(data, build_json_schema())
    job = load_job(data, overrides=["spark.sql.shuffle.partitions=8"], environment={}).job
    assert job.spark == {
        "spark.ui.enabled": "false", "spark.memory.fraction": "0.5",
        "spark.sql.shuffle.partitions": "8",
    }  # fmt: skip
    assert job.all_sources["records"].records.reader_options == {
        "header": "true", "maxColumns": "9",
    }  # fmt: skip
    for value in ([1], None, {}):
        with pytest.raises(
            ConfigError, match=r"^config: spark.spark.a: one text, number, true or false is"
        ):
            load_job(changed("spark", {"spark.a": value}), environment={})


@pytest.mark.parametrize(
    ("of_job", "of_operator", "expected"),
    [
        ({}, {}, EXTENSION),
        ({}, {"spark.sql.extensions": "a.B, c.D"}, f"{EXTENSION},a.B,c.D"),
        ({"spark.sql.extensions": f"x.Y,{EXTENSION}"}, {"spark.sql.extensions": "a.B"},
         f"{EXTENSION},x.Y"),
    ],
)  # fmt: skip
def test_other_sql_extensions_are_kept_with_deltas(of_job, of_operator, expected):
    """Regression: those of `spark-defaults.conf` were dropped."""
    loaded = load_job({**GOOD, "spark": of_job}, environment={})
    assert _join_extensions(loaded.job, of_operator) == expected


def test_the_schema_command_prints_json_schema(capsys):
    assert main.run(["schema"]) == 0
    schema = orjson.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False


def test_the_keys_in_the_docs_are_up_to_date():
    """Update them with `python -m tests.support.job_reference docs/job-file.md`."""
    text = (ROOT / "docs" / "job-file.md").read_text(encoding="utf-8")
    assert insert_tables(text) == text
    assert "| `assignor.split` |" in text


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_an_example_fits_the_json_schema_and_its_seeds_can_be_read(path):
    loaded = load_job(path, environment={})
    check_files(loaded)
    assert all(read_seeds(loaded).values())
    jsonschema.validate(parse_yaml(path.read_text(encoding="utf-8")), build_json_schema())


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_replacing_brokers_equals_loading_the_job_with_the_broker(path):
    """`--with-broker` loads the job before the broker runs and its address is known."""
    moved = load_job(path, environment={}, broker="127.0.0.1:9092").replace_brokers("b:1")
    loaded = load_job(path, environment={}, broker="b:1")
    assert moved.job == loaded.job
    assert moved.to_yaml() == loaded.to_yaml()
    for name, source in loaded.job.all_sources.items():
        assert moved.job.all_sources[name].model_fields_set == source.model_fields_set


def test_init_writes_a_short_job_that_loads_and_never_overwrites(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    assert main.run(["init", str(file), "--topic", "events", "--bootstrap-server", "b:1"]) == 0
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 24
    job = load_job(file, environment={}).job
    assert job.name == "mine"
    assert job.all_sources["records"].options["subscribe"] == "events"
    jsonschema.validate(parse_yaml(text), build_json_schema())
    capsys.readouterr()
    assert main.run(["init", str(file)]) == 2
    assert (
        capsys.readouterr().err == f"assignor: {str(file)!r} already exists: choose another name\n"
    )
    assert file.read_text(encoding="utf-8") == text
    assert main.run(["init", "/proc/no/job.yaml"]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_the_authentication_and_cluster_examples_of_init_load(tmp_path):
    """The first job shows how to connect to a broker with authentication."""
    file = tmp_path / "mine.yaml"
    assert main.run(["init", str(file)]) == 0
    said = re.sub("(?m)^( *)# (kafka|spark)", r"\1\2", file.read_text(encoding="utf-8"))
    file.write_text(said, encoding="utf-8")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="ann" password="a: #b";'
    job = load_job(file, environment={"JAAS": jaas}).job
    options = job.all_sources["records"].options
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == jaas
    assert job.spark["spark.master"] == "spark://host:7077"


@pytest.mark.parametrize("topic", ["123", "null", "2024-01-01", "1.5", "-", "a.b_c-d"])
def test_init_writes_names_that_yaml_reads_as_text(topic, tmp_path):
    assert main.run(["init", str(tmp_path / "a\nb: c.yaml"), "--topic", topic]) == 0
    job = load_job(tmp_path / "a\nb: c.yaml", environment={}).job
    assert job.all_sources["records"].options["subscribe"] == topic
    assert job.checkpoint == f"data/checkpoints/{topic}"


def test_init_accepts_a_file_name_that_is_not_utf8(tmp_path):
    """Regression: it caused a traceback, and left an empty file that blocked the next attempt."""
    file = tmp_path / os.fsdecode(b"caf\xe9.yaml")
    assert main.run(["init", str(file)]) == 0
    assert (
        load_job(file, environment={}).job.all_sources["records"].options["subscribe"] == "orders"
    )


def test_init_removes_a_partially_written_file(tmp_path, capsys):
    before = (
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        resource.getrlimit(resource.RLIMIT_FSIZE),
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1][1]))
    try:
        code = main.run(["init", str(tmp_path / "job.yaml")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[1])
        signal.signal(signal.SIGXFSZ, before[0])
    assert code == 1
    assert "cannot be written: File too large" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--topic", "a: {x"], "--topic 'a: {x' is not a topic name: use"),
        (["--topic", ""], "--topic '' is not a topic name: use"),
        (["--topic", ".."], "--topic '..' is not a topic name: use"),
        (["--bootstrap-server", "host:99999"], "--bootstrap-server 'host:99999': the port must be"),
        (["--bootstrap-servers", "h:99999"], "--bootstrap-server 'h:99999': the port must be"),
        (["--bootstrap-server", "a: {x"], "--bootstrap-server 'a: {x': host:port is expected"),
    ],
)
def test_init_rejects_topics_and_servers_that_kafka_rejects(words, message, tmp_path, capsys):
    assert main.run(["init", str(tmp_path / "job.yaml"), *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param('{"kee": "1"}', "line 2: unknown key 'kee'; did you mean 'key'?", id="key"),
        pytest.param('{"key": 1}', "line 2: key: text in quotes is expected", id="type"),
        pytest.param('{"base64": "?"}', "line 2: 'base64' cannot be decoded", id="no base64"),
        pytest.param('{"key"', "line 2: unexpected end of data", id="no JSON"),
        pytest.param('{"value": 1, "base64": ""}', "cannot be used together", id="both"),
    ],
)
def test_an_error_in_a_seed_file_is_one_line_with_its_position(line, message, tmp_path):
    (tmp_path / "job.yaml").write_bytes(orjson.dumps(GOOD | {"seed": {"orders": {"file": "s"}}}))
    (tmp_path / "s").write_text('{"key": "1", "value": {"id": 1}}\n' + line + "\n")
    with pytest.raises(ConfigError, match=r"^job.yaml: seed.orders.file: ") as raised:
        read_seeds(load_job(tmp_path / "job.yaml"))
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        pytest.param("no.ddl", None, "cannot be read: No such file", id="no file"),
        pytest.param("s.avsc", '{"type": "string"}', "is not a record with fields", id="no record"),
        pytest.param("s.avsc", "{", "the schema is not JSON", id="no JSON"),
    ],
)
def test_a_bad_schema_file_is_one_line_and_exit_code_2(file, content, message, tmp_path, capsys):
    if content is not None:
        (tmp_path / file).write_text(content)
    data = changed("source/records", {"format": "avro", "schema": file})
    (tmp_path / "job.yaml").write_bytes(orjson.dumps(data))
    assert main.run(["run", str(tmp_path / "job.yaml")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("assignor: job.yaml: source.records.schema: ")
    assert message in line


@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param("no_such_module:step", "No module named 'no_such_module'", id="no module"),
        pytest.param("json:no_such", "has no attribute 'no_such'", id="no function"),
        pytest.param("json:__name__", "is not a function", id="no callable"),
    ],
)
def test_a_missing_python_function_is_an_error(function, message):
    with pytest.raises(ConfigError, match=r"^config: transform.python: ") as raised:
        check_files(load_job(GOOD | {"transform": {"python": function}}, environment={}))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        pytest.param("def step(:", "SyntaxError: ", id="no Python"),
        pytest.param("import os; os.environ['NOT_SET']", "KeyError: 'NOT_SET'", id="KeyError"),
        pytest.param("raise SystemExit('no more')", "SystemExit: no more", id="it ends Python"),
    ],
)
def test_a_failing_import_of_a_python_function_is_one_line(
    module, message, tmp_path, monkeypatch, capsys
):
    """Regression: it caused a traceback, or ended the process."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"step_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(module)
    job = GOOD | {"transform": {"python": f"{name}:step"}}
    (tmp_path / "job.yaml").write_bytes(orjson.dumps(job))
    assert main.run(["run", str(tmp_path / "job.yaml"), "--dry-run"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    start = f"assignor: job.yaml: transform.python: '{name}:step' cannot be imported: {message}"
    assert line.startswith(start)


def test_flags_for_spark_submit_have_the_jobs_packages(tmp_path, capsys):
    data = changed("source/records", {"format": "avro", "schema": "s.avsc"})
    (tmp_path / "job.yaml").write_bytes(orjson.dumps(data))
    assert main.run(["jars", "--job", str(tmp_path / "job.yaml")]) == 0
    flags = capsys.readouterr().out
    for module in ("assignor-bridge", "spark-sql-kafka", "delta-spark", "spark-avro"):
        assert module in flags


@pytest.mark.parametrize("package", ["", "init", "no init"])
def test_jobs_with_modules_of_the_same_name_use_their_own_functions(package, tmp_path, monkeypatch):
    """Regression: the second job ran the first one's function, cached by module name."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"steps_{abs(hash(tmp_path))}"
    for folder in ("a", "b"):
        place = tmp_path / folder / (name if package else "")
        place.mkdir(parents=True)
        (place / f"{name}_more.py").write_text(f"def step(_):\n    return {folder!r}\n")
        if package == "init":
            (place / "__init__.py").touch()
        named = f"{name}.{name}_more:step" if package else f"{name}_more:step"
        job = GOOD | {"transform": {"python": named}}
        (tmp_path / folder / "job.yaml").write_bytes(orjson.dumps(job))
    found = [
        import_function(loaded, next(iter(loaded.job.all_transforms)))(None)  # type: ignore[arg-type]
        for loaded in (load_job(tmp_path / f / "job.yaml", environment={}) for f in "aba")
    ]
    assert found == ["a", "b", "a"]
