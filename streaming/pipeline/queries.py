"""One streaming query a sink, and one for each source whose bad records go somewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import AssignorError
from checkpoints.folders import CheckpointError
from streaming.pipeline import upsert
from streaming.pipeline.continuity import check_continuity
from streaming.pipeline.delta_table import TableError
from streaming.pipeline.delta_writer import DeltaWriter
from streaming.pipeline.failures import JobError
from streaming.pipeline.frames import bad_records, frame_of_sink, without_kafka
from streaming.pipeline.names import folding, quoted
from streaming.pipeline.places import absolute
from streaming.pipeline.sinks_config import ConsoleSink, DeltaSink, KafkaSink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructField

    from streaming.pipeline.loading import LoadedJob

_HEADERS = "array<struct<key:string,value:binary>>"


@dataclass
class Planned:
    """A query that is checked and can be started."""

    name: str
    writer: Any
    #: Where it stands in the config.
    place: str
    #: Its own checkpoint; None for a job that just prints.
    checkpoint: str | None
    delta: DeltaWriter | None = None
    rows: DataFrame | None = None
    table_is_there: bool = True

    def check(self, spark: SparkSession, loaded: LoadedJob) -> None:
        """Check that it can go on from its checkpoint.

        Raises
        ------
        JobError
            When the checkpoint, the table or the topics are not those of the last run.
        """
        if self.checkpoint is None:
            return
        try:
            check_continuity(
                spark, loaded.job, self.checkpoint, self.delta, is_there=self.table_is_there
            )
        except (TableError, AssignorError, CheckpointError) as error:
            raise JobError(loaded.redact(f"{loaded.title}: {self.place}: {error}")) from None

    def create_table(self, spark: SparkSession) -> None:
        """Make the sink's table, when it is not there; let an older one remember how it is kept."""
        if self.delta is None or self.rows is None:
            return
        if self.table_is_there:
            self.delta.adopt(spark)
        else:
            self.delta.create(spark, self.rows)

    def start(self) -> StreamingQuery:
        """Start the query, and tell a Delta sink its id."""
        query: StreamingQuery = self.writer.start()
        if self.delta is not None:
            self.delta.started(query.id)
        return query


def plan_queries(spark: SparkSession, loaded: LoadedJob) -> list[Planned]:
    """Build and check all queries of a job; nothing is started or written."""
    planned = [*_sink_queries(spark, loaded), *_dead_letter_queries(spark, loaded)]
    _check_apart(spark, loaded, planned)
    return planned


def _check_apart(spark: SparkSession, loaded: LoadedJob, planned: list[Planned]) -> None:
    """Check that no table by name is another's folder, which the config alone does not show."""
    found: dict[str, Planned] = {}
    for query in planned:
        if query.delta is None or not query.table_is_there:
            continue
        folder = absolute(spark, query.delta.table.location(spark)).rstrip("/")
        other = found.setdefault(folder, query)
        if other is query or other.delta is None:
            continue
        if not (query.delta.sink.shared and other.delta.sink.shared):
            where = query.delta.table.where
            said = f"the table {where!r} is that of {other.place}: each needs its own"
            raise loaded.error(query.place, said)


def _sink_queries(spark: SparkSession, loaded: LoadedJob) -> Iterator[Planned]:
    job = loaded.job
    for name, sink in job.all_sinks.items():
        query = job.name if job.sink is not None else f"{job.name}.{name}"
        place = job.place("sink", name)
        frame = frame_of_sink(spark, loaded, sink)
        try:
            if isinstance(sink, DeltaSink):
                rows = (
                    upsert.prepare(frame, sink) if sink.mode == "upsert" else without_kafka(frame)
                )
                delta = DeltaWriter(sink, f"{loaded.title}: {place}", redact=loaded.redact)
                yield _to_delta(spark, loaded, delta, rows, query=query, part=name, place=place)
            else:
                rows = without_kafka(frame)
                writer = (
                    _to_console(rows, sink)
                    if isinstance(sink, ConsoleSink)
                    else _to_topic(rows, sink, job.kafka_options(sink.options))
                )
                yield _planned(loaded, writer, query, name, place)
        except TableError as error:
            raise loaded.error(place, str(error)) from None


def _to_delta(
    spark: SparkSession, loaded: LoadedJob, delta: DeltaWriter, rows: DataFrame,
    *, query: str, part: str, place: str,
) -> Planned:  # fmt: skip
    is_there = delta.check(spark, rows)
    mode = "update" if delta.sink.mode == "upsert" else "append"
    writer = rows.writeStream.outputMode(mode).foreachBatch(delta)
    planned = _planned(loaded, writer, query, part, place)
    return replace(planned, delta=delta, rows=rows, table_is_there=is_there)


def _to_console(rows: DataFrame, sink: ConsoleSink) -> Any:
    return (
        rows.writeStream.format("console")
        .outputMode(sink.output_mode)
        .option("numRows", str(sink.rows))
        .option("truncate", str(sink.truncate).lower())
    )


def _to_topic(rows: DataFrame, sink: KafkaSink, options: dict[str, str]) -> Any:
    from pyspark.sql import functions as f

    from streaming.pipeline.failures import first_line

    fold = folding(rows.sparkSession)
    named = {fold(name): f.col(quoted(name)) for name in rows.columns}
    try:
        everything = f.to_json(f.struct(*(quoted(name) for name in rows.columns)))
        parts = {
            "value": f.expr(sink.value) if sink.value else named.get("value", everything),
            "key": f.expr(sink.key) if sink.key else named.get("key"),
            "headers": named.get("headers"),
        }
        chosen = rows.select(*(c.alias(n) for n, c in parts.items() if c is not None))
        written = chosen.select(*(_as_kafka_takes_it(field) for field in chosen.schema.fields))
    except Exception as error:
        raise TableError(first_line(error)) from error
    kafka = written.writeStream.format("kafka").outputMode(sink.output_mode)
    return kafka.options(**options).option("topic", sink.topic)


def _as_kafka_takes_it(field: StructField) -> Column:
    """Give bytes and text as they are, lists and structs as JSON, the rest as text."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    column = f.col(field.name)
    kind = field.dataType
    if field.name == "headers":
        if kind.simpleString() != _HEADERS:
            raise TableError(f"the column 'headers' is {kind.simpleString()}, {_HEADERS} is needed")
        return column
    if isinstance(kind, (BinaryType, StringType)):
        return column
    if isinstance(kind, (StructType, ArrayType, MapType)):
        return f.to_json(column).alias(field.name)
    return column.cast("string").alias(field.name)


def _dead_letter_queries(spark: SparkSession, loaded: LoadedJob) -> Iterator[Planned]:
    """Read the source once more and keep what is bad: a query of its own is exactly once."""
    job = loaded.job
    for name, source in job.all_sources.items():
        letter = source.records.dead_letter
        if letter is None:
            continue
        part = f"dead_letter_{name}"
        query = f"{job.name}.{part}"
        place = f"{job.place('source', name)}.records.dead_letter"
        bad = bad_records(spark, loaded, name)
        if letter.topic is not None:
            options = job.kafka_options(source.options)
            kafka = {key: value for key, value in options.items() if key.startswith("kafka.")}
            topic = bad.select("key", "value").writeStream.format("kafka").options(**kafka)
            yield _planned(loaded, topic.option("topic", letter.topic), query, part, place)
            continue
        sink = DeltaSink(path=letter.path, table=letter.table, shared=letter.shared)
        # Its batches are noted as Delta's own streaming sink does, which older versions used.
        delta = DeltaWriter(sink, f"{loaded.title}: {place}", str, loaded.redact)
        kept = bad.select("topic", "partition", "offset", "timestamp", "key", "value")
        try:
            yield _to_delta(spark, loaded, delta, kept, query=query, part=part, place=place)
        except TableError as error:
            raise loaded.error(place, str(error)) from None


def _planned(loaded: LoadedJob, writer: Any, query: str, part: str, place: str) -> Planned:
    job = loaded.job
    writer = writer.queryName(query)
    checkpoint = None
    if job.checkpoint is not None:
        checkpoint = f"{job.checkpoint.rstrip('/')}/{part}"
        writer = writer.option("checkpointLocation", checkpoint)
    if job.interval is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=job.interval)
    return Planned(query, writer, place, checkpoint)
