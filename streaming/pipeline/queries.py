"""One streaming query a sink, and one for each source whose bad records go somewhere."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from streaming.delta.transactions import make_writer_name
from streaming.pipeline.config.conflicts import check_apart
from streaming.pipeline.config.sinks import ConsoleSink, DeltaSink, KafkaSink
from streaming.pipeline.delta import upsert
from streaming.pipeline.delta.writer import DeltaWriter
from streaming.pipeline.errors import ConfigError, TableError
from streaming.pipeline.progress import WRITTEN, QueryResult
from streaming.pipeline.spark.columns import get_name_normalizer, quote_name
from streaming.pipeline.spark.folders import qualify_path
from streaming.pipeline.spark.frames import bad_records, frame_of_sink, without_kafka
from streaming.pipeline.spark.plan_sources import PlanSource, plan_sources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructField

    from streaming.pipeline.config.job import Output
    from streaming.pipeline.config.loading import LoadedJob

_HEADERS = "array<struct<key:string,value:binary>>"


@dataclass(slots=True, eq=False, repr=False)
class Query:
    """A query that is checked and can be started."""

    name: str
    #: Where it stands in the config.
    place: str
    rows: DataFrame
    #: Spark's `DataStreamWriter`.
    writer: Any
    #: Its own checkpoint; None for a job that just prints.
    checkpoint: str | None
    delta: DeltaWriter | None
    #: What it reads, in the order of Spark's numbers.
    sources: list[PlanSource]
    #: What it has done in this run.
    result: QueryResult
    #: Spark's own, once it is started.
    running: StreamingQuery | None = None

    def start(self) -> None:
        """Start the query, and tell a Delta sink its id."""
        self.running = self.writer.start()
        if self.delta is not None and self.running is not None:
            self.delta.set_query(self.running.id, self.running)

    def stop(self) -> None:
        """Stop the query if it runs, and wait for what its sink still writes."""
        with contextlib.suppress(Exception):  # it has ended by itself, or Spark has
            if self.running is not None and self.running.isActive:
                self.running.stop()
        if self.delta is not None:
            self.delta.finish()

    def reads(self, options: Mapping[str, str]) -> list[int]:
        """Return the numbers of its sources that were opened with these options."""
        return [n for n, source in enumerate(self.sources) if source.has_options(options)]

    @property
    def sink_error(self) -> Exception | None:
        """What our own sink failed with, of which Spark only hands on the text."""
        return self.delta.error if self.delta is not None else None


def plan_queries(spark: SparkSession, loaded: LoadedJob) -> list[Query]:
    """Build and check all queries of a job; nothing is started or written."""
    queries = []
    for output in loaded.job.outputs:
        if output.bad_of is None:
            frame = frame_of_sink(spark, loaded, output.sink)
        else:  # the source is read once more: a query of its own is exactly once
            frame = bad_records(spark, loaded, output.bad_of, output.sink)
        with loaded.at(output.place):
            queries.append(_query(spark, loaded, output, frame))
    _check_groups(loaded, queries)
    locations = {
        query.place: qualify_path(spark, query.delta.table.location(spark))
        for query in queries
        if query.delta is not None and query.delta.table_exists
    }
    try:
        check_apart(loaded.job, locations)
    except ValueError as error:
        raise ConfigError(loaded.redact(f"{loaded.title}: {error}")) from None
    return queries


def _check_groups(loaded: LoadedJob, queries: Sequence[Query]) -> None:
    """Check that no partition's offsets are committed to a group by two streams.

    Each commits where it is itself, so the group would be ahead of the slower one's checkpoint.
    """
    committing: list[tuple[Query, PlanSource]] = []
    for query in queries:
        for source in query.sources:
            group = source.commit_group
            same = [other for other in committing if group and source.commits_with(other[1])]
            if any(q is not query or s.relation != source.relation for q, s in same):
                other = same[0][0]
                by = f"twice by {query.name!r}" if other is query else f"by {other.name!r} as well"
                raise loaded.error(
                    query.place,
                    f"this query would commit to the group {group!r} (assignor.commitGroup), to "
                    f"which these topics are committed {by}, and the group would be ahead of the "
                    "slower one's checkpoint: leave the option out (`assignor lag` reads the "
                    "checkpoints), or let one query alone read the source",
                )
            committing.append((query, source))


def _query(spark: SparkSession, loaded: LoadedJob, output: Output, frame: DataFrame) -> Query:
    job, sink = loaded.job, output.sink
    is_of_sink = output.bad_of is None
    name = job.name if job.sink is not None and is_of_sink else f"{job.name}.{output.part}"
    if isinstance(sink, DeltaSink) and sink.mode == "upsert":
        rows = upsert.add_sequence(frame, sink)
    else:
        rows = without_kafka(frame)
    rows = rows.observe(WRITTEN, f.count(f.lit(1)).alias("rows"))
    checkpoint = None
    if job.checkpoint is not None:
        checkpoint = f"{job.checkpoint.rstrip('/')}/{output.part}"
    delta = None
    if isinstance(sink, DeltaSink):
        # Dead letters are noted as Delta's own streaming sink does, which older versions used.
        name_writer = make_writer_name if is_of_sink else str
        place = f"{loaded.title}: {output.place}"
        delta = DeltaWriter(sink, place, name_writer, loaded.redact, checkpoint)
        delta.check(spark, rows)
        mode = "update" if sink.mode == "upsert" else "append"
        writer = rows.writeStream.outputMode(mode).foreachBatch(delta)
    elif isinstance(sink, ConsoleSink):
        options = {"numRows": str(sink.rows), "truncate": str(sink.truncate).lower()}
        console = rows.writeStream.format("console").options(**options)
        writer = console.outputMode(sink.output_mode)
    else:
        kafka = _as_kafka_takes_them(rows, sink).writeStream.format("kafka")
        kafka = kafka.options(**job.kafka_options(sink.options)).option("topic", sink.topic)
        writer = kafka.outputMode(sink.output_mode)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    every = {"processingTime": job.interval} if job.interval else {"availableNow": True}
    writer = writer.queryName(name).trigger(**every)
    table = (sink.path or sink.table) if isinstance(sink, DeltaSink) else None
    topic = sink.topic if isinstance(sink, KafkaSink) else None
    target = loaded.redact(table or topic or "") or None
    result = QueryResult(name, target, is_table=delta is not None, is_dead_letter=not is_of_sink)
    return Query(name, output.place, rows, writer, checkpoint, delta, plan_sources(rows), result)


def _as_kafka_takes_them(rows: DataFrame, sink: KafkaSink) -> DataFrame:
    normalize = get_name_normalizer(rows.sparkSession)
    named = {normalize(name): f.col(quote_name(name)) for name in rows.columns}
    everything = f.to_json(f.struct(*(quote_name(name) for name in rows.columns)))
    parts = {
        "value": f.expr(sink.value) if sink.value else named.get("value", everything),
        "key": f.expr(sink.key) if sink.key else named.get("key"),
        "headers": named.get("headers"),
    }
    chosen = rows.select(*(c.alias(n) for n, c in parts.items() if c is not None))
    return chosen.select(*(_as_kafka_takes_it(field) for field in chosen.schema.fields))


def _as_kafka_takes_it(field: StructField) -> Column:
    """Return bytes and text as they are, lists and structs as JSON, the rest as text."""
    column = f.col(field.name)
    kind = field.dataType
    if field.name == "headers":
        if kind.simpleString() != _HEADERS:
            raise TableError(
                f"the column 'headers' is {kind.simpleString()}, {_HEADERS} is expected"
            )
        return column
    if isinstance(kind, (BinaryType, StringType)):
        return column
    if isinstance(kind, (StructType, ArrayType, MapType)):
        return f.to_json(column).alias(field.name)
    return column.cast("string").alias(field.name)
