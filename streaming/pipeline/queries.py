"""Build one streaming query per sink, and one per source with a dead letter."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from streaming.delta.transactions import make_writer_name
from streaming.pipeline.config.conflicts import check_folders
from streaming.pipeline.config.sinks import ConsoleSink, DeltaSink, KafkaSink
from streaming.pipeline.delta import upsert
from streaming.pipeline.delta.writer import DeltaWriter
from streaming.pipeline.job_errors import ConfigError, TableError
from streaming.pipeline.row_counts import WRITTEN_METRIC, QueryResult
from streaming.pipeline.spark.column_names import get_name_normalizer, quote_name
from streaming.pipeline.spark.frames import build_bad_records, build_sink_frame, drop_kafka_struct
from streaming.pipeline.spark.job_folders import qualify_path
from streaming.pipeline.spark.plan_sources import PlanSource, list_plan_sources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructField

    from streaming.pipeline.config.job import Output
    from streaming.pipeline.config.loading import LoadedJob

_HEADERS_TYPE = "array<struct<key:string,value:binary>>"


@dataclass(slots=True, eq=False, repr=False)
class JobQuery:
    """A checked query that can be started."""

    name: str
    #: Path of the sink's key in the config.
    key_path: str
    rows: DataFrame
    #: Spark's `DataStreamWriter`.
    writer: Any
    #: The query's checkpoint; None if the job has none, because it only prints.
    checkpoint: str | None
    delta_writer: DeltaWriter | None
    #: Sources, in the order in which Spark numbers them.
    sources: list[PlanSource]
    result: QueryResult
    #: Spark's query; None until it is started.
    stream: StreamingQuery | None = None

    def start(self) -> None:
        """Start the query, and pass its id to a Delta sink."""
        self.stream = self.writer.start()
        if self.delta_writer is not None and self.stream is not None:
            self.delta_writer.set_query(self.stream.id, self.stream)

    def stop(self) -> None:
        """Stop the query if it is running, and wait for its sink's background writes."""
        with contextlib.suppress(Exception):  # the query or Spark may have ended
            if self.stream is not None and self.stream.isActive:
                self.stream.stop()
        if self.delta_writer is not None:
            self.delta_writer.finish()

    def find_source_numbers(self, options: Mapping[str, str]) -> list[int]:
        """Return the numbers of the sources that have these options."""
        return [n for n, source in enumerate(self.sources) if source.has_options(options)]

    @property
    def sink_error(self) -> Exception | None:
        """The Delta sink's error, or None; Spark keeps only its text."""
        return self.delta_writer.error if self.delta_writer is not None else None


def plan_queries(spark: SparkSession, loaded_job: LoadedJob) -> list[JobQuery]:
    """Build and check a job's queries, and write nothing; raise ConfigError if one is invalid."""
    queries = []
    for output in loaded_job.job.outputs:
        if output.bad_source is None:
            frame = build_sink_frame(spark, loaded_job, output.sink)
        else:  # a separate query reads the source again, for exactly-once
            frame = build_bad_records(spark, loaded_job, output.bad_source, output.sink)
        with loaded_job.wrap_errors(output.key_path):
            queries.append(_plan_query(spark, loaded_job, output, frame))
    _check_commit_groups(loaded_job, queries)
    locations = {
        query.key_path: qualify_path(spark, query.delta_writer.table.find_location(spark))
        for query in queries
        if query.delta_writer is not None and query.delta_writer.table_exists
    }
    try:
        check_folders(loaded_job.job, locations)
    except ValueError as error:
        raise ConfigError(loaded_job.redact(f"{loaded_job.title}: {error}")) from None
    return queries


def _check_commit_groups(loaded_job: LoadedJob, queries: Sequence[JobQuery]) -> None:
    """Raise ConfigError if two streams may commit offsets of one partition to the same group.

    Each stream commits its own progress, so the group would be ahead of the slower checkpoint.
    """
    checked_pairs: list[tuple[JobQuery, PlanSource]] = []
    for query in queries:
        for source in query.sources:
            group = source.commit_group
            conflicts = [pair for pair in checked_pairs if group and source.commits_with(pair[1])]
            if any(q is not query or s.relation != source.relation for q, s in conflicts):
                other_query = conflicts[0][0]
                prefix = "a second time " if other_query is query else ""
                raise loaded_job.make_error(
                    query.key_path,
                    f"this query would commit to the group {group!r} (assignor.commitGroup), but "
                    f"the same topics may also be committed {prefix}by {other_query.name!r}, so "
                    "the group would be ahead of the slower checkpoint: remove the option (as "
                    "`assignor lag` reads the checkpoints), or read these topics only once",
                )
            checked_pairs.append((query, source))


def _plan_query(
    spark: SparkSession, loaded_job: LoadedJob, output: Output, frame: DataFrame
) -> JobQuery:
    job, sink = loaded_job.job, output.sink
    is_sink = output.bad_source is None
    name = job.name if job.sink is not None and is_sink else f"{job.name}.{output.folder}"
    if isinstance(sink, DeltaSink) and sink.mode == "upsert":
        rows = upsert.add_sequence(frame, sink)
    else:
        rows = drop_kafka_struct(frame)
    rows = rows.observe(WRITTEN_METRIC, f.count(f.lit(1)).alias("rows"))
    checkpoint = None
    if job.checkpoint is not None:
        checkpoint = f"{job.checkpoint.rstrip('/')}/{output.folder}"
    delta_writer = None
    if isinstance(sink, DeltaSink):
        # Dead-letter writers are named by the query id alone, as older versions named them.
        name_writer = make_writer_name if is_sink else str
        label = f"{loaded_job.title}: {output.key_path}"
        delta_writer = DeltaWriter(sink, label, name_writer, loaded_job.redact, checkpoint)
        delta_writer.check(spark, rows)
        output_mode = "update" if sink.mode == "upsert" else "append"
        writer = rows.writeStream.outputMode(output_mode).foreachBatch(delta_writer)
    elif isinstance(sink, ConsoleSink):
        options = {"numRows": str(sink.rows), "truncate": str(sink.truncate).lower()}
        writer = rows.writeStream.format("console").options(**options).outputMode(sink.output_mode)
    else:
        options = {**job.merge_kafka_options(sink.options), "topic": sink.topic}
        writer = _select_kafka_columns(rows, sink).writeStream.outputMode(sink.output_mode)
        writer = writer.format("kafka").options(**options)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    trigger = {"processingTime": job.interval} if job.interval else {"availableNow": True}
    writer = writer.queryName(name).trigger(**trigger)
    table = (sink.path or sink.table) if isinstance(sink, DeltaSink) else None
    topic = sink.topic if isinstance(sink, KafkaSink) else None
    target = loaded_job.redact(table or topic or "") or None
    is_table = delta_writer is not None
    result = QueryResult(name, target, is_table=is_table, is_dead_letter=not is_sink)
    sources = list_plan_sources(rows)
    return JobQuery(name, output.key_path, rows, writer, checkpoint, delta_writer, sources, result)


def _select_kafka_columns(rows: DataFrame, sink: KafkaSink) -> DataFrame:
    normalize = get_name_normalizer(rows.sparkSession)
    column_by_name = {normalize(name): f.col(quote_name(name)) for name in rows.columns}
    all_as_json = f.to_json(f.struct(*(quote_name(name) for name in rows.columns)))
    expressions = {
        "value": f.expr(sink.value) if sink.value else column_by_name.get("value", all_as_json),
        "key": f.expr(sink.key) if sink.key else column_by_name.get("key"),
        "headers": column_by_name.get("headers"),
    }
    kafka_rows = rows.select(*(c.alias(n) for n, c in expressions.items() if c is not None))
    return kafka_rows.select(*(_convert_for_kafka(field) for field in kafka_rows.schema.fields))


def _convert_for_kafka(field: StructField) -> Column:
    """Keep bytes, text, and headers; convert structs, lists, and maps to JSON, the rest to text."""
    column = f.col(field.name)
    data_type = field.dataType
    if field.name == "headers":
        if data_type.simpleString() != _HEADERS_TYPE:
            sql_type = data_type.simpleString()
            raise TableError(f"the column 'headers' is {sql_type}, but {_HEADERS_TYPE} is expected")
        return column
    if isinstance(data_type, (BinaryType, StringType)):
        return column
    if isinstance(data_type, (StructType, ArrayType, MapType)):
        return f.to_json(column).alias(field.name)
    return column.cast("string").alias(field.name)
