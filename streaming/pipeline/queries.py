"""One streaming query a sink, and one for each source whose bad records go somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.pipeline import upsert
from streaming.pipeline.delta_table import TableError
from streaming.pipeline.delta_writer import DeltaWriter
from streaming.pipeline.frames import frame_of_sink, parsed_source, without_kafka
from streaming.pipeline.sinks_config import ConsoleSink, DeltaSink, KafkaSink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.pipeline.config import Job
    from streaming.pipeline.loading import LoadedJob
    from streaming.pipeline.sinks_config import DeadLetter


@dataclass
class Planned:
    """A query that is checked and can be started."""

    name: str
    writer: Any
    delta: DeltaWriter | None = None
    rows: DataFrame | None = None
    table_is_there: bool = True
    letter: DeadLetter | None = None

    def create_table(self, spark: SparkSession) -> None:
        """Make the sink's table, when it is not there."""
        if self.delta is not None and self.rows is not None and not self.table_is_there:
            self.delta.create(spark, self.rows)

    def start(self) -> StreamingQuery:
        """Start the query, and tell a Delta sink its id."""
        letter = self.letter
        query: StreamingQuery
        if letter is not None and letter.table is not None:
            query = self.writer.toTable(letter.table)
        elif letter is not None and letter.path is not None:
            query = self.writer.start(letter.path)
        else:
            query = self.writer.start()
        if self.delta is not None:
            self.delta.started(query.id)
        return query


def plan_queries(spark: SparkSession, loaded: LoadedJob) -> list[Planned]:
    """Build and check all queries of a job; nothing is started or written."""
    return [*_sink_queries(spark, loaded), *_dead_letter_queries(spark, loaded)]


def _sink_queries(spark: SparkSession, loaded: LoadedJob) -> Iterator[Planned]:
    job = loaded.job
    for name, sink in job.all_sinks.items():
        query = _query_name(job, name)
        place = job.place("sink", name)
        frame = frame_of_sink(spark, loaded, sink)
        try:
            if isinstance(sink, DeltaSink):
                yield _to_delta(spark, loaded, sink, frame=frame, name=name)
            else:
                rows = without_kafka(frame)
                writer = (
                    _to_console(rows, sink)
                    if isinstance(sink, ConsoleSink)
                    else _to_topic(rows, sink, job.kafka_options(sink.options))
                )
                yield Planned(query, _named(loaded, writer, query, name))
        except TableError as error:
            raise loaded.error(place, str(error)) from None


def _to_delta(
    spark: SparkSession,
    loaded: LoadedJob,
    sink: DeltaSink,
    *,
    frame: DataFrame,
    name: str,
) -> Planned:
    place = loaded.job.place("sink", name)
    query = _query_name(loaded.job, name)
    rows = upsert.prepare(frame, sink) if sink.mode == "upsert" else without_kafka(frame)
    delta = DeltaWriter(sink, f"{loaded.title}: {place}")
    is_there = delta.check(spark, rows)
    mode = "update" if sink.mode == "upsert" else "append"
    writer = rows.writeStream.outputMode(mode).foreachBatch(delta)
    return Planned(query, _named(loaded, writer, query, name), delta, rows, is_there)


def _query_name(job: Job, name: str) -> str:
    return job.name if job.sink is not None else f"{job.name}.{name}"


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

    names = rows.columns
    try:
        value = (
            f.expr(sink.value) if sink.value
            else f.col("value") if "value" in names
            else f.to_json(f.struct(*names))
        )  # fmt: skip
        columns = [value.alias("value")]
        if sink.key or "key" in names:
            columns.append((f.expr(sink.key) if sink.key else f.col("key")).alias("key"))
        if "headers" in names:
            columns.append(f.col("headers"))
        written = rows.select(*columns)
    except Exception as error:
        raise TableError(first_line(error)) from error
    kafka = written.writeStream.format("kafka").outputMode(sink.output_mode)
    return kafka.options(**options).option("topic", sink.topic)


def _dead_letter_queries(spark: SparkSession, loaded: LoadedJob) -> Iterator[Planned]:
    """Read the source once more and keep what is bad: a query of its own is exactly once."""
    job = loaded.job
    for name, source in job.all_sources.items():
        letter = source.records.dead_letter
        if letter is None:
            continue
        bad = parsed_source(spark, loaded, name).bad
        assert bad is not None  # noqa: S101  (raw records have no dead letter)
        part = f"dead_letter_{name}"
        writer = _dead_letters(bad, letter, job.kafka_options(source.options))
        query = f"{job.name}.{part}"
        yield Planned(query, _named(loaded, writer, query, part), letter=letter)


def _dead_letters(bad: DataFrame, letter: DeadLetter, options: dict[str, str]) -> Any:
    if letter.topic is not None:
        kafka = {key: value for key, value in options.items() if key.startswith("kafka.")}
        topic = bad.select("key", "value").writeStream.format("kafka")
        return topic.options(**kafka).option("topic", letter.topic)
    kept = bad.select("topic", "partition", "offset", "timestamp", "key", "value")
    return kept.writeStream.format("delta").outputMode("append")


def _named(loaded: LoadedJob, writer: Any, query: str, part: str) -> Any:
    job = loaded.job
    writer = writer.queryName(query)
    if job.checkpoint is not None:
        writer = writer.option("checkpointLocation", f"{job.checkpoint.rstrip('/')}/{part}")
    if job.interval is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=job.interval)
