"""Which records are bad, asked of Spark's own readers: one counts only when it is read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from streaming.pipeline.config.sources import Records
from streaming.pipeline.spark.records import Upsert, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.integration
KAFKAS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"


def from_kafka(spark: SparkSession, pairs: list[tuple[bytes | None, bytes | None]]) -> DataFrame:
    rows = [(key, value, "t", 0, number, None) for number, (key, value) in enumerate(pairs)]
    return spark.createDataFrame(rows, KAFKAS).coalesce(1)


def parsed(
    spark: SparkSession, records: dict[str, Any], pairs: list[tuple[bytes | None, bytes | None]],
    *upserts: Upsert,
) -> tuple[dict[int, tuple[Any, ...]], set[int]]:  # fmt: skip
    """Give the good rows by the number of their record, and the numbers of the bad records."""
    read = Records.model_validate({"bad_records": "drop", **records})
    found = parse(from_kafka(spark, pairs), "t", read, read.schema_ or "", upserts=upserts)
    assert found.bad is not None
    good = {row._kafka.offset: tuple(row)[:-1] for row in found.rows.collect()}
    bad = {row.offset for row in found.bad.select("offset").collect()}
    assert not good.keys() & bad
    return good, bad


JSON: list[tuple[bytes, tuple[Any, ...] | None]] = [
    (b'{"id": 1, "v": "a"}', (1, "a", None)),
    (b' {"id": 2, "n": {"a": 7}, "more": [{"x": {}}]}\n ', (2, None, (7,))),
    (b"{'id': 3, 'v': '}'}", (3, "}", None)),
    (b'{"id": 4, "v": "\xc3\xa9}"} ', (4, "é}", None)),
    (b"{}", (None, None, None)),
    (b'{"id": 5}{"id": 6}', None),
    (b'{"id": 5}\n{"id": 6}', None),
    (b'{"id": 5} trailing', None),
    (b'{"id": 5}, "x": 2', None),
    (b'{"id": 5}, {"id": 6}', None),
    (b'{"id": 5}] x', None),
    (b'{"id": 5}} x', None),
    (b'{"n": {"a": 1}}}', None),
    (b'{"id": 5}, "__record": {"id": 6}', None),
    (b'{"id": 5, "v": "\xff\xfe"}', None),
    (b'{"id": 5', None),
    (b'{"id": "x"}', None),
    (b'[{"id": 5}]', None),
    (b"5", None),
    (b"", None),
    (b"  ", None),
]


def test_a_json_record_that_is_read_in_part_is_bad(spark):
    pairs = [(b"k", value) for value, _ in JSON]
    records = {"format": "json", "schema": "id BIGINT, v STRING, n STRUCT<a: INT>"}
    good, bad = parsed(spark, records, pairs)
    assert good == {n: row for n, (_, row) in enumerate(JSON) if row is not None}
    assert bad == {n for n, (_, row) in enumerate(JSON) if row is None}


CSV: list[tuple[bytes, tuple[Any, ...] | None]] = [
    (b'1,"q""q"', (1, 'q"q')),
    (b'2,"a\nb, c"', (2, "a\nb, c")),
    (b"3,", (3, None)),
    (b",", (None, None)),
    (b'4,"back\\"', (4, "back\\")),
    (b'4,19" rack', (4, '19" rack')),
    (b'5,"unclosed', None),
    (b'5,"a\nb', None),
    (b"5,a\xff", None),
    (b"", None),
    (b"5", None),
    (b"5,a,b", None),
    (b"5,a\n6,b", None),
]


def test_csv_is_that_of_rfc_4180_and_what_is_read_in_part_is_bad(spark):
    pairs = [(b"k", value) for value, _ in CSV]
    good, bad = parsed(spark, {"format": "csv", "schema": "id BIGINT, v STRING"}, pairs)
    assert good == {n: row for n, (_, row) in enumerate(CSV) if row is not None}
    assert bad == {n for n, (_, row) in enumerate(CSV) if row is None}
    own = {"format": "csv", "schema": "id INT, v STRING", "options": {"Quote": "'", "sep": ";"}}
    assert parsed(spark, own, [(None, b"1;'it''s'"), (None, b'2;"')])[0] == {
        0: (1, "it's"), 1: (2, '"'),
    }  # fmt: skip
    tab = {"format": "csv", "schema": "id INT, v STRING", "options": {"sep": "\\t"}}
    assert parsed(spark, tab, [(None, b"1\ta"), (None, b'2\t"b')]) == ({0: (1, "a")}, {1})
    slash = {"format": "csv", "schema": "v STRING", "options": {"escape": "\\"}}
    assert parsed(spark, slash, [(None, b'"a\\"b"'), (None, b"")])[0] == {0: ('a"b',), 1: (None,)}


def test_a_tombstone_without_a_usable_key_is_a_bad_record(spark):
    """Whatever the case of the key's name; not where a transform can make the key from Kafka's."""
    pairs = [(b"1", None), (b'"2"', None), (None, None), (b"\xff", b"null"), (b"4", b'{"v": "a"}')]
    records: dict[str, Any] = {"format": "json", "schema": "id BIGINT, v STRING"}
    good, bad = parsed(spark, records, pairs, Upsert(("ID",), makes_keys=False))
    assert good == {0: (1, None), 4: (None, "a")}
    assert bad == {1, 2, 3}
    good, bad = parsed(spark, records, pairs, Upsert(("ID",), makes_keys=True))
    assert (len(good), bad) == (5, set())
    declared = records | {"key": "Id BIGINT"}
    good, bad = parsed(spark, declared, pairs, Upsert(("id",), makes_keys=True))
    assert good == {0: (1, None), 4: (None, "a")}
    assert bad == {1, 2, 3}
    text = {"format": "json", "schema": "k STRING", "key": "k STRING"}
    assert parsed(spark, text, pairs, Upsert(("k",), makes_keys=False))[1] == {2, 3}
    with pytest.raises(Exception, match=r"at t-0 offset 0 is a tombstone whose key cannot be rea"):
        parsed(spark, records | {"bad_records": "fail"}, pairs[1:2], Upsert(("id",), False))


@pytest.mark.parametrize(
    ("records", "name"),
    [
        pytest.param({"format": "json", "schema": "id INT, _KAFKA STRING"}, "_KAFKA", id="json"),
        pytest.param({"format": "csv", "schema": "__corrupt STRING"}, "__corrupt", id="csv"),
        pytest.param(
            {"format": "json", "schema": "id INT", "key": "_kafka STRING"}, "_kafka", id="key"
        ),
    ],
)
def test_a_column_of_a_name_that_is_ours_is_refused(spark, records, name):
    with pytest.raises(ValueError, match=rf"the column '{name}' has a reserved name: use another"):
        parsed(spark, records, [])
