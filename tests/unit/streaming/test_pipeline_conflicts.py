"""Conflicts between the parts of a job are refused in one line before anything starts."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from streaming.pipeline.config.conflicts import check_folders
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.job_errors import ConfigError

BROKER = "broker:9092"
SOURCE: dict[str, Any] = {"subscribe": "orders", "records": {"format": "json", "schema": "id INT"}}
TABLE: dict[str, Any] = {"path": "/tables/orders"}


def with_dead_letter(where: dict[str, Any], **source: Any) -> dict[str, Any]:
    data = copy.deepcopy(SOURCE) | source
    data["records"] |= {"bad_records": "dead_letter", "dead_letter": where}
    return data


def job(**parts: Any) -> dict[str, Any]:
    data = {"kafka.bootstrap.servers": BROKER, "checkpoint": "/checkpoints/orders", **parts}
    if "sources" not in parts:
        data.setdefault("source", SOURCE)
    if "sinks" not in parts:
        data.setdefault("sink", TABLE)
    return data


def topic_sink(topic: str, **more: Any) -> dict[str, Any]:
    return {"type": "kafka", "topic": topic, **more}


REFUSED = {
    "sources a and A": (
        job(sources={"a": SOURCE, "A": SOURCE}, sink={**TABLE, "from": "a"}),
        "sources.A: its view 'A' has the same name as that of sources.a (SQL ignores case)",
    ),
    "a transform of a source's name": (
        job(sources={"a": SOURCE}, transforms={"A": {"sql": "SELECT * FROM a"}}),
        "transforms.A: its view 'A' has the same name as that of sources.a (SQL ignores case)",
    ),
    "a sink of the dead letter's name": (
        job(source=with_dead_letter({"path": "/bad"}), sinks={"dead_letter_records": TABLE}),
        "sinks.dead_letter_records: the name is reserved for the bad records of source 'records'",
    ),
    "two sinks on one table": (
        job(sinks={"a": TABLE, "b": {"path": "file:///tables/orders/"}}),
        "sinks.b: sinks.a has the same table 'file:///tables/orders/'",
    ),
    "two sinks on one table by name": (
        job(sinks={"a": {"table": "t"}, "b": {"table": "default.T", "shared": True}}),
        "sinks.b: sinks.a has the same table 'default.T'",
    ),
    "a dead letter on the sink's table": (
        job(source=with_dead_letter(TABLE)),
        "source.records.dead_letter: sink has the same table '/tables/orders'",
    ),
    "a table that is the checkpoint": (
        job(sink={"path": "/checkpoints/orders"}),
        "the folder is the table of sink",
    ),
    "a table that is the checkpoint by another spelling": (
        job(sink={"path": "file:/checkpoints//orders/"}),
        "checkpoint: the folder is the table of sink",
    ),
    "a table in a query's own folder of the checkpoint": (
        job(sink={"path": "/checkpoints/orders/sink"}),
        "sink: the folder '/checkpoints/orders/sink' is inside "
        "'/checkpoints/orders/sink' of the checkpoint of 'sink'",
    ),
    "a checkpoint in the table": (
        job(checkpoint="/tables/orders/checkpoint"),
        "checkpoint: the folder '/tables/orders/checkpoint' is inside '/tables/orders' of sink",
    ),
    "a checkpoint in Delta's own folder": (
        job(checkpoint="/tables/orders/_delta_log/checkpoint"),
        "checkpoint: the folder",
    ),
    "a table in a table": (
        job(sinks={"a": {"path": "s3a://Bucket/t"}, "b": {"path": "s3a://bucket/t/u"}}),
        "sinks.b: the folder 's3a://bucket/t/u' is inside 's3a://Bucket/t'",
    ),
    "a dead letter to the source's topic": (
        job(source=with_dead_letter({"topic": "orders"}, subscribe="other, orders")),
        "source.records.dead_letter: source 'records' reads the topic 'orders', so each bad record",
    ),
    "a dead letter that the source's pattern matches": (
        job(
            source=with_dead_letter(
                {"topic": "orders.bad"}, subscribe=None, subscribePattern="orders.*"
            )
        ),
        "source.records.dead_letter: source 'records' reads the topic 'orders.bad', so each bad",
    ),
    "a sink to the source's topic": (
        job(sink=topic_sink("orders")),
        "sink: source 'records' reads the topic 'orders'",
    ),
    "a sink to the topic of an assigned source, through SQL": (
        job(
            sources={"a": {"assign": '{"back": [0]}'}, "b": SOURCE},
            transforms={"t": {"sql": "SELECT b.* FROM B JOIN a ON true"}},
            sink=topic_sink("back", **{"kafka.bootstrap.servers": "other:1, BROKER:9092"}),
        ),
        "sink: source 'a' reads the topic 'back'",
    ),
    "shared beside an upsert": (
        job(sink={**TABLE, "mode": "upsert", "keys": "id", "shared": True}),
        "'shared' is for mode 'append'",
    ),
    "deletes that are marked, in an append": (  # regression: it was ignored
        job(sink={**TABLE, "deletes": "mark"}),
        "'deletes: mark' is for mode 'upsert', but the mode is 'append'",
    ),
    "a shared topic": (
        job(source=with_dead_letter({"topic": "bad", "shared": True})),
        "'shared' is only for a table",
    ),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_conflicting_parts_are_refused_in_one_line(data, message):
    if data.get("source", {}).get("subscribe", "") is None:
        del data["source"]["subscribe"]
    with pytest.raises(ConfigError) as raised:
        load_job(data, environment={})
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


TAKEN = {
    "a hidden folder for the checkpoint in the table": job(checkpoint="/tables/orders/_checkpoint"),
    "folders side by side": job(sink={"path": "/checkpoints/orders-table"}),
    "one table that is shared": job(
        sinks={"a": {**TABLE, "shared": True}, "b": {**TABLE, "shared": True}}
    ),
    "one table that is shared, by two spellings": job(
        sinks={"a": {**TABLE, "shared": True}, "b": {"path": "/tables//orders/", "shared": True}}
    ),
    "a table beside the queries' folders of the checkpoint": job(
        sink={"path": "/checkpoints/orders/table"}
    ),
    "a sink of a dead letter's name, without one": job(sinks={"dead_letter_records": TABLE}),
    "folders that differ behind a sign that addresses use": job(
        sinks={"a": {"path": "s3a://b/t#1"}, "b": {"path": "s3a://b/t#2"}}
    ),
    "folders that differ by what addresses quote": job(
        sinks={"a": {"path": "s3a://b/a%20b"}, "b": {"path": "s3a://b/a b"}}
    ),
    "the same path in two buckets": job(
        sinks={"a": {"path": "s3a://one/t"}, "b": {"path": "s3a://two/t"}}
    ),
    "the topic of a source that the sink does not read": job(
        sources={"a": SOURCE, "b": {"subscribe": "later"}},
        sink=topic_sink("later", **{"from": "a"}),
    ),
    "sources that feed each other, as repaired records and those to be tried again do": job(
        sources={"a": {"subscribe": "one"}, "b": {"subscribe": "two"}},
        sinks={
            "to_b": topic_sink("two", **{"from": "a"}),
            "to_a": topic_sink("one", **{"from": "b"}),
        },
    ),
    "the same topic of another broker": job(
        sink=topic_sink("orders", **{"kafka.bootstrap.servers": "other:9092"})
    ),
}


@pytest.mark.parametrize("data", TAKEN.values(), ids=TAKEN)
def test_parts_without_conflicts_are_accepted(data):
    load_job(data, environment={})


@pytest.mark.parametrize(
    ("location", "message"),
    [
        pytest.param(
            "file:/tables/b", "sinks.b: sinks.a has the same table '/tables/b'", id="same"
        ),
        pytest.param(
            "file:/tables/b/c",
            "sinks.a: the folder 'file:/tables/b/c' is inside '/tables/b'",
            id="in",
        ),
        pytest.param("file:/tables/a", None, id="apart"),
    ],
)
def test_the_folder_of_a_table_by_name_is_compared(location, message):
    config = load_job(job(sinks={"a": {"table": "t"}, "b": {"path": "/tables/b"}}), environment={})
    if message is None:
        check_folders(config.job, {"sinks.a": location})
        return
    with pytest.raises(ValueError, match=message):
        check_folders(config.job, {"sinks.a": location})


def test_a_path_without_a_file_system_may_equal_a_tables_folder():
    """With HDFS as the default, `/tables/b` and `hdfs://nn/tables/b` are the same."""
    config = load_job(job(sinks={"a": {"table": "t"}, "b": {"path": "/tables/b"}}), environment={})
    folder = "hdfs://nn/tables/b"
    with pytest.raises(ValueError, match=r"sinks\.b: sinks\.a has the same table '/tables/b'"):
        check_folders(config.job, {"sinks.a": folder, "sinks.b": folder})


def test_a_checkpoint_inside_its_table_through_a_link_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    config = job(checkpoint=str(tmp_path / "real" / "table" / "c"))
    config["sink"] = {"path": str(tmp_path / "link" / "table")}
    with pytest.raises(ConfigError, match=r"checkpoint: the folder .* is inside .*link/table"):
        load_job(config, environment={})


def test_topics_of_assign_are_checked_like_those_of_subscribe():
    config = job(source={"assign": '{"back": [0], "more": [1]}'})
    [(place, _, topics)] = load_job(config, environment={}).job.iterate_broker_uses()
    assert (place, topics) == ("source", ["back", "more"])


def test_the_sources_of_a_sink_are_the_inputs_of_its_transforms():
    data = job(
        sources={"a": SOURCE, "b": SOURCE, "c": SOURCE},
        transforms={
            "one": {"sql": "SELECT * FROM A"},
            "two": {"python": "json:loads", "from": "b"},
            "three": {"sql": "SELECT * FROM one JOIN two"},
        },
        sinks={
            "x": {"path": "/x", "from": "one"},
            "y": {"path": "/y"},
            "z": {"path": "/z", "from": "c"},
        },
    )
    loaded = load_job(data, environment={}).job
    found = {name: loaded.find_sources(sink) for name, sink in loaded.all_sinks.items()}
    assert found == {"x": ("a",), "y": ("a", "b"), "z": ("c",)}
