"""Which records are bad, checked with Spark's own readers: partially read ones are."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from streaming.pipeline.config.sources import Records
from streaming.pipeline.spark.records import Upsert, parse_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.integration
KAFKAS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"


def make_kafka_frame(
    spark: SparkSession, pairs: list[tuple[bytes | None, bytes | None]]
) -> DataFrame:
    rows = [(key, value, "t", 0, number, None) for number, (key, value) in enumerate(pairs)]
    return spark.createDataFrame(rows, KAFKAS).coalesce(1)


def parse_pairs(
    spark: SparkSession, records: dict[str, Any], pairs: list[tuple[bytes | None, bytes | None]],
    *upserts: Upsert,
) -> tuple[dict[int, tuple[Any, ...]], set[int]]:  # fmt: skip
    """Return the good rows by record number, and the numbers of the bad records."""
    read = Records.model_validate({"bad_records": "drop", **records})
    found = parse_records(
        make_kafka_frame(spark, pairs), "t", read, read.schema_ or "", upserts=upserts
    )
    assert found.bad_records is not None
    good = {row._kafka.offset: tuple(row)[:-1] for row in found.rows.collect()}
    bad = {row.offset for row in found.bad_records.select("offset").collect()}
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


def check_table(
    spark: SparkSession, records: dict[str, Any], table: list[tuple[bytes, Any]]
) -> None:
    """Check that each value is parsed to the row next to it, or is bad if that is None."""
    good, bad = parse_pairs(spark, records, [(b"k", value) for value, _ in table])
    assert good == {n: row for n, (_, row) in enumerate(table) if row is not None}
    assert bad == {n for n, (_, row) in enumerate(table) if row is None}


def test_a_partially_read_json_record_is_bad(spark):
    schema = "id BIGINT, v STRING, n STRUCT<a: INT>"
    check_table(spark, {"format": "json", "schema": schema}, JSON)


#: Type, JSON text and parsed value of a column; None for a bad record.
EXACT: list[tuple[str, bytes, Any]] = [
    ("s", b"12.50 ", "12.50"),
    ("s", b"12345678901234567890.1234567890", "12345678901234567890.1234567890"),
    ("s", b'{"a": 1.50, "b": ["\\n\xc3\xa9"]}', '{"a": 1.50, "b": ["\\né"]}'),
    ("s", b"[\n1.0\n]", "[\n1.0\n]"),
    ("s", b"-0.10", "-0.10"),
    ("s", b"true", "true"),
    ("n", b'{"l": [1.10, "x"], "d": {"x": 1.5, "y": "2.50"}}',
     (["1.10", "x"], {"x": Decimal("1.5"), "y": Decimal("2.5")})),
    ("n", b'{"d": {"x": 1.55}}', None),
    ("m", b"1.500", Decimal("1.50")),
    ("m", b"1e3", Decimal("1000.00")),
    ("m", b'"1234.50"', Decimal("1234.50")),
    ("m", b'"1,234.50"', None),
    ("m", b"1.005", None),
    ("m", b'"1.005"', None),
    ("m", b"123456789", None),
    ("b", b"127", 127),
    ("b", b"200", None),  # Spark reads -56
    ("t", b"1795262402000000", None),  # Spark's microseconds overflow
    ("i", b"1.0", None),
    ("i", b'"1"', None),
    # Lengths and exponents that are too large.
    ("m", b"1e600000000", None),
    ("m", b'"1e-600000000"', None),
    ("m", b"0e-600000000", None),
    ("m", b'"' + b"9" * 500_000 + b'"', None),
    ("i", b"9" * 500_000, None),
    ("x", b"[" * 500_000, None),
    ("s", b"[" * 500_000 + b"]" * 500_000, None),
]  # fmt: skip


def test_a_json_number_is_read_exactly_or_is_bad(spark):
    schema = (
        "s STRING, n STRUCT<l: ARRAY<STRING>, d: MAP<STRING, DECIMAL(4,1)>>, m DECIMAL(10,2), "
        "b TINYINT, t TIMESTAMP, i BIGINT"
    )
    names = "snmbti"
    table = [
        (b'{"%s": %s}' % (name.encode(), value),
         None if read is None else tuple(read if name == other else None for other in names))
        for name, value, read in EXACT
    ]  # fmt: skip
    check_table(spark, {"format": "json", "schema": schema}, table)
    german = {"format": "json", "schema": "m DECIMAL(10,2)", "options": {"locale": "de"}}
    check_table(spark, german, [(b'{"m": "1.234,50"}', (Decimal("1234.50"),))])


def number(value: int) -> bytes:
    """Encode a number as Avro does."""
    zigzag, written = (value << 1) ^ (value >> 63), b""
    while zigzag > 127:
        zigzag, written = zigzag >> 7, written + bytes([zigzag & 127 | 128])
    return written + bytes([zigzag])


HUGE = number(1_900_000_000)
_INTS: dict[str, Any] = {"type": "array", "items": "int"}
_LINK = {"name": "next", "type": ["null", "Link"]}
#: Fields that are null unless a record has them.
AVRO_FIELDS: dict[str, Any] = {
    "s": "string", "b": "bytes", "i": "long", "a": _INTS, "z": {"type": "array", "items": "null"},
    "m": {"type": "map", "values": "int"},
    "r": {"type": "record", "name": "Link", "fields": [_LINK]},
}  # fmt: skip
#: Field, encoded bytes and parsed value; None for a bad record.
AVRO: list[tuple[str, bytes, Any]] = [
    ("s", number(3) + "aé".encode(), "aé"),
    ("s", HUGE + b"ab", None),
    ("s", number(2**62) + b"ab", None),
    ("s", number(-5) + b"ab", None),
    ("s", number(2) + b"\xff\xfe", None),
    ("b", number(2) + b"\xff\xfe", b"\xff\xfe"),
    ("b", HUGE + b"ab", None),
    ("i", b"\x80" * 30, None),
    ("i", b"", None),
    ("a", b"\4\2\4\0", [1, 2]),
    ("a", b"\3\4\2\4\0", [1, 2]),
    ("a", HUGE + b"\2", None),
    ("a", number(-1_900_000_000) + b"\2\2", None),
    ("a", number(-(2**63)) + b"\2\0", None),
    ("z", b"\4\0", [None, None]),
    ("z", HUGE + b"\0", None),
    ("m", b"\2\2k\n\0", {"k": 5}),
    ("m", HUGE + b"\2k\n\0", None),
    ("m", b"\2" + HUGE + b"k\n\0", None),
    ("r", b"\2" * 240 + b"\0", ((),)),
    ("r", b"\2" * 100_000 + b"\0", None),
]


def test_an_avro_record_with_a_false_length_is_bad(spark):
    """Avro would allocate that memory first, and the executor would die."""
    fields = [{"name": name, "type": ["null", kind]} for name, kind in AVRO_FIELDS.items()]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    records = {
        "format": "avro", "schema": schema, "confluent": False,
        "options": {"recursiveFieldMaxDepth": "2"},
    }  # fmt: skip
    table = []
    for name, written, read in AVRO:
        before, after = [*AVRO_FIELDS].index(name), len(AVRO_FIELDS) - [*AVRO_FIELDS].index(name)
        value = b"\0" * before + b"\2" + written + b"\0" * (after - 1)
        row = (*(None,) * before, read, *(None,) * (after - 1))
        table.append((value, None if read is None else row))
    check_table(spark, records, table)


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
    (b"6,y\n", (6, "y")),
    (b"6,y\r\n", (6, "y")),
    (b"6,y\r", (6, "y")),
    (b'6,"y\n"\r\n', (6, "y\n")),
    (b'6,"y\n', None),
    (b"\n", None),
]


@pytest.mark.long
def test_csv_follows_rfc_4180_and_partially_read_records_are_bad(spark):
    check_table(spark, {"format": "csv", "schema": "id BIGINT, v STRING"}, CSV)
    own = {"format": "csv", "schema": "id INT, v STRING", "options": {"Quote": "'", "sep": ";"}}
    assert parse_pairs(spark, own, [(None, b"1;'it''s'"), (None, b'2;"')])[0] == {
        0: (1, "it's"), 1: (2, '"'),
    }  # fmt: skip
    tab = {"format": "csv", "schema": "id INT, v STRING", "options": {"sep": "\\t"}}
    assert parse_pairs(spark, tab, [(None, b"1\ta"), (None, b'2\t"b')]) == ({0: (1, "a")}, {1})
    exact = {"format": "csv", "schema": "m DECIMAL(10,2), t STRING"}
    cells = [(b"1.500,x", (Decimal("1.50"), "x")), (b",x", (None, "x")), (b'"1,234.50",x', None),
             (b"1.005,x", None), (b"1e600000000,x", None), (b"x,x", None)]  # fmt: skip
    check_table(spark, exact, cells)
    german = {**exact, "options": {"locale": "de", "sep": ";"}}
    check_table(spark, german, [(b"1.234,50;x", (Decimal("1234.50"), "x"))])
    slash = {"format": "csv", "schema": "v STRING", "options": {"escape": "\\"}}
    assert parse_pairs(spark, slash, [(None, b'"a\\"b"'), (None, b"")])[0] == {
        0: ('a"b',),
        1: (None,),
    }


@pytest.mark.long
def test_a_tombstone_without_a_usable_key_is_a_bad_record(spark):
    """In any case of the key's name, unless a transform can set the key from Kafka's."""
    pairs = [(b"1", None), (b'"2"', None), (None, None), (b"\xff", b"null"), (b"4", b'{"v": "a"}')]
    records: dict[str, Any] = {"format": "json", "schema": "id BIGINT, v STRING"}
    good, bad = parse_pairs(spark, records, pairs, Upsert(("ID",), set_by_transform=False))
    assert good == {0: (1, None), 4: (None, "a")}
    assert bad == {1, 2, 3}
    good, bad = parse_pairs(spark, records, pairs, Upsert(("ID",), set_by_transform=True))
    assert (len(good), bad) == (5, set())
    declared = records | {"key": "Id BIGINT"}
    good, bad = parse_pairs(spark, declared, pairs, Upsert(("id",), set_by_transform=True))
    assert good == {0: (1, None), 4: (None, "a")}
    assert bad == {1, 2, 3}
    text = {"format": "json", "schema": "k STRING", "key": "k STRING"}
    assert parse_pairs(spark, text, pairs, Upsert(("k",), set_by_transform=False))[1] == {2, 3}
    with pytest.raises(Exception, match=r"at t-0 offset 0 is a tombstone whose key cannot be rea"):
        parse_pairs(spark, records | {"bad_records": "fail"}, pairs[1:2], Upsert(("id",), False))


#: Columns of the key, keys of tombstones, and the keys deleted; None for a bad record.
KEYS: list[tuple[str, list[tuple[bytes, tuple[Any, ...] | None]]]] = [
    ("id BIGINT", [(b'{"id": 1}', (1,)), (b"1", (1,)), (b'{"id": 1} x', None), (b'{"Id": 1}', None),
                   (b'{"id": "1"}', None), (b'{"id": null}', None), (b"\xff", None)]),
    ("id STRING", [(b'{"id": "a"}', ("a",)), (b'{"id": 1.50}', ("1.50",)), (b"a", ("a",)),
                   (b'{"x": "a"}', ('{"x": "a"}',)), (b"{a", ("{a",)), (b'{"id": null}', None)]),
    ("id DECIMAL(5,2)", [(b"1.50", (Decimal("1.50"),)), (b"1.005", None), (b"1,5", None),
                         (b'{"id": 1.5}', (Decimal("1.50"),)), (b'{"id": 1.005}', None)]),
    ("id DECIMAL(2,2)", [(b"0", (Decimal(0),)), (b'{"id": 0.0}', (Decimal(0),)), (b"1", None)]),
    ("id STRUCT<a: INT>", [(b'{"id": {"a": 1}}', ((1,),)), (b'{"a": 1}', None)]),
    ("id BIGINT, b STRING", [(b'{"id": 15, "b": 1.50}', (15, "1.50")), (b'{"id": 15}', None),
                             (b'{"id": 15, "b": "x"} x', None), (b"15", None)]),
]  # fmt: skip


@pytest.mark.parametrize(("key", "tombstones"), KEYS, ids=[key for key, _ in KEYS])
def test_the_key_of_a_tombstone_is_read_exactly_from_text_or_json(spark, key, tombstones):
    names = tuple(column.split()[0] for column in key.split(", "))
    records = {"format": "json", "schema": key, "key": key}
    pairs = [(text, None) for text, _ in tombstones]
    good, bad = parse_pairs(spark, records, pairs, Upsert(names, set_by_transform=False))
    assert good == {n: row for n, (_, row) in enumerate(tombstones) if row is not None}
    assert bad == {n for n, (_, row) in enumerate(tombstones) if row is None}


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
def test_a_column_with_a_reserved_name_is_refused(spark, records, name):
    with pytest.raises(ValueError, match=rf"the column '{name}' has a reserved name: use another"):
        parse_pairs(spark, records, [])
