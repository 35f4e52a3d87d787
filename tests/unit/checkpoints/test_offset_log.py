"""Checkpoints of Spark 4.0 and 4.2 are read as plain data or give a one-line error."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from checkpoints.folders import CheckpointError, LocalFolder, open_folder
from checkpoints.log_files import parse_kafka_offsets
from checkpoints.offset_log import BatchRangeReader, read_checkpoint_folder
from checkpoints.state_text import encode
from checkpoints.sticky_state import StickyState, StoredExecutor

if TYPE_CHECKING:
    from pathlib import Path

META = '{"batchWatermarkMs":0,"batchTimestampMs":%d,"conf":{"spark.sql.shuffle.partitions":"2"}}'
ENDS = '{"t":{"1":%d,"0":7}}'


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def a_checkpoint(folder: Path, **more: str) -> Path:
    files = {
        "metadata": '{"id":"q-1"}',
        "sources/0/0": '\0v1\n{"t":{"0":1,"1":2}}',
        "sources/1/0": "v1\n{}",
        "offsets/9": f"v1\n{META % 900}\n{ENDS % 9}\n-",
        "offsets/10": f'v1\n{META % 1000}\n{ENDS % 12}\n{{"logOffset":3}}',
        "offsets/12": f"v1\n{META.replace('0,', '55,', 1) % 1200}\n{ENDS % 20}\n-",
        "offsets/.12.crc": "x",
        "offsets/.13.f00.tmp": "v1",
        "commits/9": "v1\n{}",
        "commits/10": "v1\n{}",
    }
    return write(folder, files | more)


def a_state() -> StickyState:
    one, off = np.array([0]), np.array([20])
    empty = np.array([np.nan])
    return replace(
        StickyState.empty(), generation=3, batches=1, readers=(StoredExecutor("7", "h", 1),),
        topics=("t",), topic=one, partition=one, member=one, position=off, seen=one,
        cost=empty, last_cost=empty,
            evidence=empty, bytes=empty, density=empty,
    )  # fmt: skip


def test_batches_sources_and_the_query(tmp_path):
    found = read_checkpoint_folder(open_folder(str(a_checkpoint(tmp_path))))
    assert found.query_id == "q-1"
    assert found.sources == ("0",)
    assert [(b.batch_id, b.committed, b.timestamp_ms) for b in found.batches] == [
        (9, True, 900), (10, True, 1000), (12, False, 1200),
    ]  # fmt: skip
    assert found.begins == {"0": {"t": {0: 1, 1: 2}}}
    assert found.last_planned is found.batches[2]
    assert found.last_committed is found.batches[1]
    assert found.ends_of("0", found.last_committed) == {"t": {1: 12, 0: 7}}
    assert found.ends_of("0", None) == {"t": {0: 1, 1: 2}}


def test_a_source_without_new_data_keeps_its_last_end(tmp_path):
    a_checkpoint(tmp_path, **{"offsets/13": f"v1\n{META % 1}\n-\n-"})
    found = read_checkpoint_folder(LocalFolder(tmp_path))
    assert found.ends_of("0", found.last_planned) == {"t": {1: 20, 0: 7}}


def test_a_source_that_started_without_a_topic_is_a_kafka_source(tmp_path):
    """With `subscribePattern`, its states were skipped and its first batch had no ranges."""
    files = {
        "metadata": '{"id":"q-1"}',
        "sources/0/0": "\0v1\n{}",
        "sources/0/assignments/0": encode(a_state()),
        "sources/1/0": "v1\n{}",
        "offsets/0": f'v1\n{META % 900}\n{{"t":{{"0":7}}}}\n{{"logOffset":3}}',
        "commits/0": "v1\n{}",
    }
    folder = LocalFolder(write(tmp_path, files))
    found = read_checkpoint_folder(folder)
    assert (found.sources, found.begins) == (("0",), {"0": {}})
    assert found.ranges == {0: {"0": {"t": {0: (0, 7)}}}}
    assert BatchRangeReader(folder).read(0) == found.ranges[0]
    assert [state.generation for state in found.kept_states["0"]] == [3]


def test_sources_by_name_as_spark_4_2_may_write_them(tmp_path):
    a_checkpoint(tmp_path, **{"offsets/13": f"v2\n{META % 1}\norders:{ENDS % 30}\nfiles:-"})
    found = read_checkpoint_folder(LocalFolder(tmp_path))
    assert found.sources == ("0", "orders")
    assert found.last_planned is not None
    assert found.last_planned.ends == {"orders": {"t": {1: 30, 0: 7}}}


def test_a_file_url_is_a_local_folder(tmp_path):
    place = a_checkpoint(tmp_path / "with space")
    assert read_checkpoint_folder(open_folder(place.as_uri())).query_id == "q-1"
    assert read_checkpoint_folder(open_folder(f"file:{place}")).query_id == "q-1"
    for name in ("run#1", "100%25"):  # Hadoop does not decode them
        exact = a_checkpoint(tmp_path / name)
        assert read_checkpoint_folder(open_folder(f"file:{exact}")).query_id == "q-1"
        assert read_checkpoint_folder(open_folder(f"file://localhost{exact}")).query_id == "q-1"
    for name in ("my_job:v2", "2026-11-24T10:00"):
        folder = open_folder(str(a_checkpoint(tmp_path / name)))
        assert read_checkpoint_folder(folder).query_id == "q-1"
        assert open_folder(name).root.name == name
    with pytest.raises(CheckpointError, match="is not on a local file system"):
        open_folder("file://elsewhere/checkpoint")
    assert str(open_folder("file:///a").root) == str(open_folder("file:/a").root) == "/a"
    with pytest.raises(CheckpointError, match="it can be read only through Spark's file systems"):
        open_folder("s3a://bucket/checkpoint")


def test_the_newest_valid_state_is_used_and_others_give_warnings(tmp_path):
    good = encode(a_state())
    a_checkpoint(tmp_path)
    place = write(
        tmp_path / "sources/0/assignments",
        {
            "2.v1": "old",
            "8.v1": good,
            "9.v1": good,
            "10.v1": good[:-9],
            "11.v1": "",
            ".12.v1.x.tmp": "x",
        },
    )
    (place / "12.v1").mkdir()
    found = read_checkpoint_folder(LocalFolder(tmp_path))
    assert found.states["0"].readers == (StoredExecutor("7", "h", 1),)
    assert [w.partition(":")[0].rpartition("/")[2] for w in found.warnings] == [
        "12.v1", "11.v1", "10.v1", "2.v1",
    ]  # fmt: skip
    assert len(found.kept_states["0"]) == 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param({}, "is not a streaming checkpoint", id="empty folder"),
        pytest.param({"metadata": "{}"}, "no query id", id="metadata of something else"),
        pytest.param({"metadata": '{"id":"q"}'}, "no Kafka source", id="nothing planned yet"),
        pytest.param({"offsets/0": f"v1\n{META % 1}\n5\n-"}, "no Kafka source", id="rate source"),
        pytest.param({"offsets/0": f"v3\n{META % 1}\n{ENDS % 1}"}, "version 3, but 2 is the newest",
                     id="newer Spark"),
        pytest.param({"offsets/0": "{}"}, "does not begin with a version", id="no version"),
        pytest.param({"offsets/0": ""}, "does not begin with a version", id="emptied"),
        pytest.param({"offsets/0": "v1"}, "is truncated", id="one line"),
        pytest.param({"offsets/0": f"v1\nx\n{ENDS % 1}"}, "no JSON object in its second",
                     id="metadata"),
        pytest.param({"offsets/0": f'v1\n{META % 1}\n{{"t":{{"0":1'}, "damaged in line 3",
                     id="cut in an offset"),
        pytest.param({"offsets/0": f"v2\n{META % 1}\n7"}, "source without an offset in line 3",
                     id="nameless source"),
        pytest.param({"offsets/0": f"v1\n{META % 1}\n-", "sources/0/0": f"v2\n{ENDS % 1}"},
                     "'sources/0/0' has version 2", id="newer source"),
        pytest.param({"offsets/0": f'v1\n{META % 1}\n{{"t":{{"0":{10**25}}}}}'},
                     r"is damaged in line 3: t-0 has no offset 1.00e\+25", id="too large"),
        pytest.param({"offsets/0": f'v1\n{META % 1}\n{{"t":{{"0":1{"0" * 400}}}}}'},
                     r"t-0 has no offset 1.00e\+400", id="larger than any float"),
        pytest.param({"offsets/0": f'v1\n{META % 1}\n{{"t":{{"0":-1}}}}'},
                     "'offsets/0' is damaged in line 3: t-0 has no offset -1", id="negative"),
        pytest.param({"offsets/0": f"v1\n{META % 1}\n-",
                      "sources/0/0": f'v1\n{{"t":{{"0":{2**63}}}}}'},
                     "'sources/0/0' is damaged: t-0 has no offset 9.22e", id="too large a begin"),
        pytest.param({"offsets/0": f'v1\n{META % 1}\n{{"t":{{"{2**31}":1}}}}'},
                     "t-2147483648 has no offset 1", id="no partition's number"),
        pytest.param({"offsets/0": f"v{'1' * 5000}\n{META % 1}\n-"}, "has version 1{19},",
                     id="no version's number"),
    ],
)  # fmt: skip
def test_invalid_checkpoints_give_one_line_errors(tmp_path, files, message):
    with pytest.raises(CheckpointError, match=message) as refused:
        read_checkpoint_folder(LocalFolder(write(tmp_path, files)))
    assert "\n" not in str(refused.value)


def test_a_missing_or_unreadable_folder_is_reported(tmp_path):
    with pytest.raises(CheckpointError, match="is not a streaming checkpoint"):
        read_checkpoint_folder(LocalFolder(tmp_path / "none"))
    (a_checkpoint(tmp_path) / "offsets" / "13").mkdir()
    with pytest.raises(CheckpointError, match="cannot be read: Is a directory"):
        read_checkpoint_folder(LocalFolder(tmp_path))


@pytest.mark.parametrize(
    "value",
    [None, 5, "x", [], {}, {"logOffset": 3}, {"t": 1}, {"t": {"x": 1}}, {"t": {"0": "1"}},
     {"t": {"0": True}}, {"t": {"0": 1.5}}, {"t": [1]}],
)  # fmt: skip
def test_offsets_of_other_sources_are_not_kafka_offsets(value):
    assert parse_kafka_offsets(json.loads(json.dumps(value))) is None


def test_a_batch_number_beyond_64_bits_is_skipped(tmp_path):
    known = read_checkpoint_folder(open_folder(str(a_checkpoint(tmp_path / "known"))))
    folder = a_checkpoint(tmp_path / "more", **{"offsets/9223372036854775808": "damaged"})
    found = read_checkpoint_folder(open_folder(str(folder)))
    assert found.batches == known.batches
