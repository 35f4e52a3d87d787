"""Where the rows and the records of an audit come from: Spark reads the table, we the topic."""

from __future__ import annotations

from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, TopicPartition

from assignor_bridge.errors import AssignorError, OptionError, elide
from assignor_bridge.model import Partition
from streaming.audit.rows import BLOCK, RowAudit, sampled
from streaming.kafka.brokers import is_group_refusal

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from streaming.audit.findings import Finding
    from streaming.audit.rows import Item, Span
    from streaming.kafka.brokers import Brokers

#: Compared where the table has them as bytes, as Spark's source gives them.
_CONTENT = ("key", "value")
_MESSAGES_A_CALL = 10_000
#: librdkafka's own number of records that a consumer fetches ahead.
_MESSAGES_AHEAD = 100_000
#: A call waits so long if it does not get all that it asks for.
_WAIT_S = 0.2


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
    retention = brokers.fetch_retention({p.topic for p in read}) if brokers is not None else {}
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
        _merge(result, span, items, brokers, content)
    for span in pending.values():
        _merge(result, span, (), brokers, content)
    for p, (begin, _) in sorted(kept.items()):
        if begin > read[p][0]:
            result.faults["records-gone"].add(p, read[p][0], min(begin, read[p][1]))
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
    told = len(brokers.notes)
    existing = brokers.list_partitions({partition.topic for partition in spans})
    asked = {p for p in spans if p.number in existing.get(p.topic, ())}
    if missing := sorted(str(p) for p in spans.keys() - asked):
        why = "; ".join(brokers.notes[told:]) or "not on the brokers"
        raise TopicUnreadableError(f"{elide(missing)}: {why}, so nothing is compared")
    begins, _ = brokers.fetch_log_ranges(asked)
    return begins


def _merge(
    result: RowAudit,
    span: Span,
    rows: Iterable[Item],
    brokers: Brokers | None,
    content: tuple[str, ...],
) -> None:
    """Merge the rows of a span with its records, read in order; without brokers there are none."""
    if brokers is None:
        result.merge(span, rows, None)
        return
    with (
        closing(_consumed(brokers, span, content)) as records,
        closing(_Committed(brokers, span)) as committed,
    ):
        result.merge(span, rows, records, committed.has)


class _Committed:
    """The records of a span that no transaction aborted; offsets are asked for in their order.

    One consumer reads from the first that is asked for up to the last: mostly it is not needed.
    """

    def __init__(self, brokers: Brokers, span: Span) -> None:
        self._brokers, self._span = brokers, span
        self._records: Generator[Item, None, None] | None = None
        self._at = -1

    def has(self, offset: int) -> bool:
        """Whether there is a record at an offset of the span."""
        partition, _, end = self._span
        if self._records is None:
            self._records = _consumed(self._brokers, (partition, offset, end), (), "read_committed")
        while self._at < offset:
            self._at, _ = next(self._records, (end, ()))
        return self._at == offset

    def close(self) -> None:
        """Close the consumer."""
        if self._records is not None:
            self._records.close()


def _consumed(
    brokers: Brokers, span: Span, content: tuple[str, ...], isolation: str = "read_uncommitted"
) -> Generator[Item, None, None]:
    partition, begin, end = span
    if begin >= end:
        return
    consumer = brokers.make_consumer(
        "assignor-audit",  # librdkafka wants a name
        enable_partition_eof=True,
        auto_offset_reset="error",
        isolation_level=isolation,
        queued_min_messages=min(_MESSAGES_AHEAD, end - begin),
    )
    try:
        consumer.assign([TopicPartition(*partition, begin)])
        at, silent_s = begin, 0.0
        while at < end:
            messages = consumer.consume(min(_MESSAGES_A_CALL, end - at), _WAIT_S)
            silent_s += _WAIT_S
            for message in messages:
                if is_group_refusal(message):
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise TopicUnreadableError(
                        f"{partition}: {brokers.describe_error(error, 'Read')}"
                    )
                offset = message.offset()
                if offset is None or offset >= end:
                    return
                values = {"key": message.key, "value": message.value}
                yield offset, tuple(_bytes(values[name]()) for name in content)
                at, silent_s = offset + 1, 0.0
            if silent_s >= brokers.limit_s:
                raise TopicUnreadableError(f"{partition}: no answer within {brokers.limit_s:g} s")
    finally:
        consumer.close()


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
