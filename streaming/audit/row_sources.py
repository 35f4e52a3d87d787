"""Where the rows and the records of an audit come from: Spark reads the table, we the topic."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, TopicPartition

from assignor_bridge.errors import AssignorError, OptionError, elided
from assignor_bridge.model import Partition
from streaming.audit.rows import BLOCK, Faults, RowAudit, sampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from streaming.audit.findings import Finding
    from streaming.audit.rows import Item, Span
    from streaming.kafka.brokers import Brokers

#: Compared where the table has them as bytes, as Spark's source gives them.
_CONTENT = ("key", "value")
_MESSAGES_A_CALL = 10_000


class Columns(NamedTuple):
    """Where rows say which record they are; parts of nested ones are joined by dots."""

    topic: str
    partition: str
    offset: str


class TopicUnreadableError(AssignorError):
    """The brokers do not give records of a topic."""


def audit_rows(  # noqa: PLR0917
    spark: SparkSession,
    table: str,
    columns: Columns,
    spans: Mapping[Partition, tuple[int, int]],
    brokers: Brokers | None = None,
    sample: int | None = None,
    version: int | None = None,
) -> tuple[RowAudit, list[Finding]]:
    """Read the rows of a table, and the records that they were made of.

    Parameters
    ----------
    spans
        What the batches have read; where nothing is known of them, each partition counts from its
        first row to its last.
    brokers, sample
        Where the records are; how many are looked at, None for all.
    version
        The table's version of which `spans` are; None for the newest. A query may go on meanwhile.

    Raises
    ------
    OptionError
        When the table has no such columns, or rows without them.
    TopicUnreadableError
        When the brokers do not give the records.
    """
    frame, content = _frame(spark, table, columns, version)
    read = dict(spans) or _spans_of_rows(frame, columns)
    begins = _log_begins(read, brokers) if brokers is not None else {}
    kept = {p: (max(begin, begins.get(p, begin)), end) for p, (begin, end) in read.items()}
    chosen = [(p, begin, end) for p, (begin, end) in sorted(kept.items()) if begin < end]
    size = 1 << 62
    if sample is not None:
        chosen, size = sampled({p: (begin, end) for p, begin, end in chosen}, sample), BLOCK
        frame = _of_blocks(spark, frame, chosen)
    retention = brokers.retention({p.topic for p in read}) if brokers is not None else {}
    result = RowAudit({topic for topic, each in retention.items() if each.compacts})
    pending = {(span[0], span[1] // size): span for span in chosen}
    ordered = frame.orderBy("topic", "partition", "offset")
    for name, rows in groupby(
        _named(ordered.toLocalIterator(), columns),
        lambda row: (Partition(row[0], row[1]), row[2] // size),
    ):
        partition = name[0]
        span = pending.pop(name, (partition, 0, 0))
        gone = range(read.get(partition, (0, 0))[0], kept.get(partition, (0, 0))[0])
        items = (_item(row) for row in rows if row[2] not in gone)
        result.merge(span, items, _records(brokers, span, content))
    for span in pending.values():
        result.merge(span, iter(()), _records(brokers, span, content))
    for p, (begin, _) in sorted(kept.items()):
        if begin > read[p][0]:
            result.faults["records-gone"].add(p, read[p][0], min(begin, read[p][1]))
    if brokers is not None:
        _leave_out_aborted(result, brokers)
    return result, list(result.findings)


def _item(row: Any) -> Item:
    return row[2], tuple(None if value is None else bytes(value) for value in row[3:])


def _frame(
    spark: SparkSession, table: str, columns: Columns, version: int | None
) -> tuple[DataFrame, tuple[str, ...]]:
    """Return topic, partition, offset and what can be compared, and the names of that."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    reader = spark.read.format("delta")
    frame = (reader if version is None else reader.option("versionAsOf", version)).load(table)
    kinds = zip(columns, ("string", "int", "bigint"), Columns._fields, strict=True)
    content = tuple(name for name, kind in frame.dtypes if name in _CONTENT and kind == "binary")
    try:
        named = [f.col(name).cast(kind).alias(alias) for name, kind, alias in kinds]
        return frame.select(*named, *content), content
    except PySparkException as error:
        raise OptionError(
            f"--columns {','.join(columns)}: the table has {', '.join(frame.columns)}"
        ) from error


def _named(rows: Iterable[Any], columns: Columns) -> Iterator[Any]:
    """Give rows, and refuse one that does not say which record it is."""
    for row in rows:
        if None in row[:3]:
            raise OptionError(
                f"--columns {','.join(columns)}: a row has NULL there, so it does not say which "
                "record it is; the table cannot be audited by these columns"
            )
        yield row


def _spans_of_rows(frame: DataFrame, columns: Columns) -> dict[Partition, tuple[int, int]]:
    """Return from where to where there are rows of each partition."""
    from pyspark.sql import functions as f

    bounds = frame.groupBy("topic", "partition").agg(f.min("offset"), f.max("offset")).collect()
    return {Partition(row[0], row[1]): (row[2], row[3] + 1) for row in _named(bounds, columns)}


def _of_blocks(spark: SparkSession, frame: DataFrame, chosen: list[Span]) -> DataFrame:
    from pyspark.sql import functions as f

    named = "topic STRING, partition INT, block BIGINT"
    blocks = spark.createDataFrame([(p.topic, p.number, at // BLOCK) for p, at, _ in chosen], named)
    block = f.floor(f.col("offset") / BLOCK).cast("bigint")
    keys = ["topic", "partition", "block"]
    return (
        frame.withColumn("block", block)
        .join(f.broadcast(blocks), keys, "left_semi")
        .select(*frame.columns)
    )


def _log_begins(
    spans: Mapping[Partition, tuple[int, int]], brokers: Brokers
) -> Mapping[Partition, int]:
    existing = brokers.partitions({partition.topic for partition in spans})
    asked = {p for p in spans if p.number in existing.get(p.topic, ())}
    if missing := sorted(str(p) for p in spans.keys() - asked):
        raise TopicUnreadableError(f"{elided(missing)}: not on the brokers, so nothing is compared")
    begins, _ = brokers.log_ranges(asked)
    return begins


def _records(
    brokers: Brokers | None, span: Span, content: tuple[str, ...]
) -> Iterator[Item] | None:
    """Read the records of a span, in order, from one partition; None without brokers."""
    if brokers is None:
        return None
    return _consumed(brokers, span, content)


def _leave_out_aborted(result: RowAudit, brokers: Brokers) -> None:
    """Miss no records of aborted transactions: a query may read committed ones only."""
    missing, kept = result.faults["rows-missing"], Faults()
    for partition, begin, end in missing.spans:
        for offset, _ in _consumed(brokers, (partition, begin, end), (), "read_committed"):
            kept.add(partition, offset)
    kept.count += missing.count - sum(end - begin for _, begin, end in missing.spans)
    result.faults["rows-missing"] = kept


def _consumed(
    brokers: Brokers, span: Span, content: tuple[str, ...], isolation: str = "read_uncommitted"
) -> Iterator[Item]:
    partition, begin, end = span
    if begin >= end:
        return
    consumer = brokers.consumer(
        "assignor-audit",  # librdkafka wants a name
        enable_partition_eof=True,
        auto_offset_reset="error",
        isolation_level=isolation,
    )
    try:
        consumer.assign([TopicPartition(*partition, begin)])
        while True:
            messages = consumer.consume(_MESSAGES_A_CALL, brokers.limit_s)
            if not messages:
                raise TopicUnreadableError(f"{partition}: no answer within {brokers.limit_s:g} s")
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise TopicUnreadableError(f"{partition}: {brokers.reason(error, 'Read')}")
                offset = message.offset()
                if offset is None or offset >= end:
                    return
                values = {"key": message.key, "value": message.value}
                yield offset, tuple(_bytes(values[name]()) for name in content)
    finally:
        consumer.close()


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
