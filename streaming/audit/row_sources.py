"""Read the table's rows with Spark, and the topics' records from the brokers."""

from __future__ import annotations

from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, TopicPartition

from assignor_bridge.errors import AssignorError, OptionError, elide
from assignor_bridge.model import Partition
from streaming.audit.rows import BLOCK_OFFSETS, RowAudit, sample_blocks
from streaming.kafka.brokers import is_group_refusal

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from streaming.audit.findings import AuditFinding
    from streaming.audit.rows import Item, Span
    from streaming.kafka.brokers import Brokers

#: Columns that are compared if the table has them with the type of Spark's Kafka source, binary.
_CONTENT_COLUMNS = ("key", "value")
_MESSAGES_PER_CALL = 10_000
#: librdkafka's default for the number of records that a consumer fetches ahead.
_MESSAGES_AHEAD = 100_000
#: Maximum time that one call waits for records.
_WAIT_S = 0.2


class Columns(NamedTuple):
    """Names of the columns that identify a row's record; `a.b` is a nested column."""

    topic: str
    partition: str
    offset: str


class TopicUnreadableError(AssignorError):
    """Records of a topic cannot be read from the brokers."""


def audit_rows(
    spark: SparkSession,
    table: str,
    columns: Columns,
    spans: Mapping[Partition, tuple[int, int]],
    brokers: Brokers | None = None,
    *,
    sample: int | None = None,
    version: int | None = None,
) -> tuple[RowAudit, list[AuditFinding]]:
    """Compare the rows of a table with the records of its topics, and return the findings.

    `spans` are the offsets `[begin, end)` that the batches read, by partition; if empty, each
    partition is audited from its first row to its last. Without `brokers`, only rows are read.
    `sample` is the approximate number of offsets to audit; None audits all. `version` is the table
    version that `spans` describe, because a running query may add versions; None is the newest.

    Raises OptionError if one of the columns does not exist, has an unsuitable type, or has a NULL;
    TopicUnreadableError if a partition does not exist or the brokers do not return its records.
    """
    frame, content_columns = _load_columns(spark, table, columns, version)
    ranges = dict(spans) or _compute_row_spans(frame, columns)
    log_begins = _request_log_begins(ranges, brokers) if brokers is not None else {}
    log_ranges = {p: (max(low, log_begins.get(p, low)), high) for p, (low, high) in ranges.items()}
    target_spans = [(p, *span) for p, span in sorted(log_ranges.items()) if span[0] < span[1]]
    block_size = 1 << 62 if sample is None else BLOCK_OFFSETS
    if sample is not None:
        target_spans = sample_blocks({p: (begin, end) for p, begin, end in target_spans}, sample)
        frame = _filter_blocks(spark, frame, target_spans)
    retention = brokers.fetch_retention({p.topic for p in ranges}) if brokers is not None else {}
    row_audit = RowAudit({topic for topic, policy in retention.items() if policy.compacts})
    span_by_block = {(span[0], span[1] // block_size): span for span in target_spans}
    ordered_rows = frame.orderBy("topic", "partition", "offset")
    for block_key, rows in groupby(
        _check_not_null(ordered_rows.toLocalIterator(), columns),
        lambda row: (Partition(row[0], row[1]), row[2] // block_size),
    ):
        partition = block_key[0]
        span = span_by_block.pop(block_key, (partition, 0, 0))
        low, _ = ranges.get(partition, (0, 0))
        deleted_offsets = range(low, log_begins.get(partition, low))
        row_items = (_to_item(row) for row in rows if row[2] not in deleted_offsets)
        _merge_span(row_audit, span, row_items, brokers, content_columns)
    for span in span_by_block.values():  # blocks without a row
        _merge_span(row_audit, span, (), brokers, content_columns)
    for p, (begin, _) in sorted(log_ranges.items()):
        if begin > ranges[p][0]:
            row_audit.faults["records-gone"].add(p, ranges[p][0], min(begin, ranges[p][1]))
    return row_audit, list(row_audit.findings)


def _to_item(row: Any) -> Item:
    return row[2], tuple(None if value is None else bytes(value) for value in row[3:])


def _load_columns(
    spark: SparkSession, table: str, columns: Columns, version: int | None
) -> tuple[DataFrame, tuple[str, ...]]:
    """Return the identifying and content columns as a frame, and the content columns' names."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    reader = spark.read.format("delta")
    frame = (reader if version is None else reader.option("versionAsOf", version)).load(table)
    casts = zip(columns, ("string", "int", "bigint"), Columns._fields, strict=True)
    binary_columns = [name for name, data_type in frame.dtypes if data_type == "binary"]
    content_columns = tuple(name for name in binary_columns if name in _CONTENT_COLUMNS)
    try:
        selected = [f.col(name).cast(data_type).alias(alias) for name, data_type, alias in casts]
        return frame.select(*selected, *content_columns), content_columns
    except PySparkException as error:
        raise OptionError(
            f"--columns {','.join(columns)}: not all exist with types that fit a topic, partition, "
            f"and offset: name others of the table's columns ({elide(frame.columns, 5)})"
        ) from error


def _check_not_null(rows: Iterable[Any], columns: Columns) -> Iterator[Any]:
    """Yield the rows; raise OptionError for a row with NULL in an identifying column."""
    for row in rows:
        if None in row[:3]:
            raise OptionError(
                f"--columns {','.join(columns)}: a row has NULL in one of these columns, so its "
                "record is unknown: name other columns, or omit --columns"
            )
        yield row


def _compute_row_spans(frame: DataFrame, columns: Columns) -> dict[Partition, tuple[int, int]]:
    """Return `[first offset, last offset + 1)` of the rows, by partition."""
    from pyspark.sql import functions as f

    bounds = frame.groupBy("topic", "partition").agg(f.min("offset"), f.max("offset")).collect()
    return {
        Partition(row[0], row[1]): (row[2], row[3] + 1) for row in _check_not_null(bounds, columns)
    }


def _filter_blocks(spark: SparkSession, frame: DataFrame, spans: list[Span]) -> DataFrame:
    from pyspark.sql import functions as f

    schema = "topic STRING, partition INT, block BIGINT"
    rows = [(p.topic, p.number, low // BLOCK_OFFSETS) for p, low, _ in spans]
    blocks = f.broadcast(spark.createDataFrame(rows, schema))
    block = f.floor(f.col("offset") / BLOCK_OFFSETS).cast("bigint")
    keys = ["topic", "partition", "block"]
    return frame.withColumn("block", block).join(blocks, keys, "left_semi").select(*frame.columns)


def _request_log_begins(
    spans: Mapping[Partition, tuple[int, int]], brokers: Brokers
) -> Mapping[Partition, int]:
    """Return each partition's first offset; raise TopicUnreadableError for a missing partition."""
    note_count = len(brokers.notes)
    partitions = brokers.list_partitions({partition.topic for partition in spans})
    existing_partitions = {p for p in spans if p.number in partitions.get(p.topic, ())}
    if missing_texts := sorted(str(p) for p in spans.keys() - existing_partitions):
        reason = "; ".join(brokers.notes[note_count:]) or "not on the brokers"
        raise TopicUnreadableError(f"{elide(missing_texts)}: {reason}, so no rows were compared")
    log_begins, _ = brokers.fetch_log_ranges(existing_partitions)
    return log_begins


def _merge_span(
    row_audit: RowAudit,
    span: Span,
    rows: Iterable[Item],
    brokers: Brokers | None,
    content_columns: tuple[str, ...],
) -> None:
    """Merge the rows of a span with its records; without brokers, check only the rows."""
    if brokers is None:
        row_audit.merge(span, rows, None)
        return
    with (
        closing(_consume(brokers, span, content_columns)) as records,
        closing(_CommittedRecords(brokers, span)) as committed_records,
    ):
        row_audit.merge(span, rows, records, committed_records.has)


class _CommittedRecords:
    """The committed records of a span; offsets must be looked up in ascending order.

    The consumer starts at the first lookup, because most audits need none.
    """

    def __init__(self, brokers: Brokers, span: Span) -> None:
        self._brokers, self._span = brokers, span
        self._records: Generator[Item, None, None] | None = None
        self._last_offset = -1

    def has(self, offset: int) -> bool:
        """Return whether the span has a committed record at an offset."""
        partition, _, end = self._span
        if self._records is None:
            self._records = _consume(self._brokers, (partition, offset, end), (), "read_committed")
        while self._last_offset < offset:
            self._last_offset, _ = next(self._records, (end, ()))
        return self._last_offset == offset

    def close(self) -> None:
        """Close the consumer."""
        if self._records is not None:
            self._records.close()


def _consume(
    brokers: Brokers, span: Span, columns: tuple[str, ...], isolation: str = "read_uncommitted"
) -> Generator[Item, None, None]:
    """Yield the records of a span, up to the log's end; raise TopicUnreadableError on failure."""
    partition, begin, end = span
    if begin >= end:
        return
    consumer = brokers.make_consumer(
        "assignor-audit",  # librdkafka requires a group id
        enable_partition_eof=True,
        auto_offset_reset="error",
        isolation_level=isolation,
        queued_min_messages=min(_MESSAGES_AHEAD, end - begin),
    )
    try:
        consumer.assign([TopicPartition(*partition, begin)])
        next_offset, silent_s = begin, 0.0
        while next_offset < end:
            messages = consumer.consume(min(_MESSAGES_PER_CALL, end - next_offset), _WAIT_S)
            silent_s += _WAIT_S
            for message in messages:
                if is_group_refusal(message):
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    reason = brokers.describe_error(error, "Read")
                    raise TopicUnreadableError(f"{partition}: {reason}")
                offset = message.offset()
                if offset is None or offset >= end:
                    return
                values = {"key": message.key, "value": message.value}
                yield offset, tuple(_to_bytes(values[name]()) for name in columns)
                next_offset, silent_s = offset + 1, 0.0
            if silent_s >= brokers.limit_s:
                raise TopicUnreadableError(f"{partition}: no answer within {brokers.limit_s:g} s")
    finally:
        consumer.close()


def _to_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
