"""Build the frame that a sink writes, from the job's sources and transforms."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from streaming.pipeline.config.referenced_files import import_function, read_schema
from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.job_errors import summarize
from streaming.pipeline.spark.column_names import check_reserved_names, get_name_normalizer
from streaming.pipeline.spark.records import KAFKA, KAFKA_FIELDS, REASON, Upsert, parse_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from streaming.pipeline.config.job import Job
    from streaming.pipeline.config.loading import LoadedJob
    from streaming.pipeline.config.sinks import Sink
    from streaming.pipeline.config.sources import Source
    from streaming.pipeline.spark.records import ParsedRows

_SESSION_STRATEGY = "spark.assignor.strategy"
_KAFKA_KEY_IN_SQL = re.compile(rf"\b{KAFKA}`?\s*\.\s*(?:`?key\b|\*)", re.IGNORECASE)
#: Temporary column that makes tombstones distinct for `dedupe`; null for other rows.
_TOMBSTONE = "__tombstone"


def build_sink_frame(spark: SparkSession, loaded_job: LoadedJob, sink: Sink) -> DataFrame:
    """Build the frame of one sink; the session has the job's views only during the call."""
    job = loaded_job.job
    upserts = collect_upserts(job, [sink])
    views: dict[str, DataFrame] = {}
    with _preserve_user_views(spark, [*job.all_sources, *job.all_transforms]):
        for name, source in job.all_sources.items():
            rows = _open_and_parse(spark, loaded_job, name, upserts=upserts).rows
            with loaded_job.wrap_errors(job.locate("source", name)):
                views[name] = _apply_watermark_and_dedupe(rows, source, has_deletes=bool(upserts))
            views[name].createOrReplaceTempView(name)
        for name in job.all_transforms:
            views[name] = _apply_transform(spark, loaded_job, name, views)
            views[name].createOrReplaceTempView(name)
    return views[job.find_view(sink)]


@contextlib.contextmanager
def _preserve_user_views(spark: SparkSession, names: list[str]) -> Iterator[None]:
    """Drop the job's views at the end, and restore the session's views with these names."""
    user_views = {}
    for name in names:
        if spark.catalog.tableExists(name) and spark.catalog.getTable(name).isTemporary:
            user_views[name] = spark.table(name)
    try:
        yield
    finally:
        for name in names:
            spark.catalog.dropTempView(name)
        for name, frame in user_views.items():
            frame.createOrReplaceTempView(name)


def collect_upserts(job: Job, sinks: Sequence[Sink]) -> list[Upsert]:
    """Return the sinks' upserts.

    `set_by_transform` is true if any transform is in Python, or is SQL that reads Kafka's key.
    """
    sql_texts = [transform.sql for transform in job.all_transforms.values()]
    set_by_transform = any(x is None or bool(_KAFKA_KEY_IN_SQL.search(x)) for x in sql_texts)
    return [
        Upsert(sink.keys, set_by_transform)
        for sink in sinks
        if isinstance(sink, DeltaSink) and sink.mode == "upsert"
    ]


def build_bad_records(
    spark: SparkSession, loaded_job: LoadedJob, source_name: str, target: Sink
) -> DataFrame:
    """Return a source's bad records; a topic gets only their keys and values."""
    job = loaded_job.job
    sinks = [sink for sink in job.all_sinks.values() if source_name in job.find_sources(sink)]
    upserts = collect_upserts(job, sinks)
    bad_records = _open_and_parse(spark, loaded_job, source_name, upserts=upserts).bad_records
    columns = ("topic", "partition", "offset", "timestamp", "key", "value", REASON)
    return bad_records.select(*(columns if isinstance(target, DeltaSink) else ("key", "value")))


def _open_and_parse(
    spark: SparkSession, loaded_job: LoadedJob, source_name: str, *, upserts: Sequence[Upsert]
) -> ParsedRows:
    job = loaded_job.job
    source = job.all_sources[source_name]
    options = job.merge_kafka_options(source.spark_options)
    reader = spark.readStream.format("kafka").options(**options)
    session_strategy = spark.conf.get(_SESSION_STRATEGY, None)
    assignor = source.get_assignor(session_has_one=bool(session_strategy))
    if assignor is not None:
        reader = reader.option("assignor", assignor)
    with loaded_job.wrap_errors(job.locate("source", source_name)):
        frame = reader.load()
    with loaded_job.wrap_errors(job.locate("source", source_name, "records")):
        schema_text = read_schema(loaded_job, source_name)
        return parse_records(frame, source_name, source.records, schema_text, upserts=upserts)


def _apply_watermark_and_dedupe(rows: DataFrame, source: Source, *, has_deletes: bool) -> DataFrame:
    """Set the watermark and drop repeated rows.

    With `has_deletes`, a tombstone is never a duplicate: all its columns except the key are null.
    """
    if source.watermark:
        rows = rows.withWatermark(source.watermark.column, source.watermark.delay)
    if not source.dedupe:
        return rows
    columns = list(source.dedupe)
    if has_deletes:
        check_reserved_names(rows.columns, [_TOMBSTONE], get_name_normalizer(rows.sparkSession))
        position = f.struct(*(f"{KAFKA}.{part}" for part in ("topic", "partition", "offset")))
        rows = rows.withColumn(_TOMBSTONE, f.when(f.col(f"{KAFKA}.tombstone"), position))
        columns.append(_TOMBSTONE)
    is_bounded = source.watermark is not None
    drop_duplicates = rows.dropDuplicatesWithinWatermark if is_bounded else rows.dropDuplicates
    return drop_duplicates(columns).drop(_TOMBSTONE) if has_deletes else drop_duplicates(columns)


def _apply_transform(
    spark: SparkSession, loaded_job: LoadedJob, transform_name: str, views: dict[str, DataFrame]
) -> DataFrame:
    transform = loaded_job.job.all_transforms[transform_name]
    if transform.sql is not None:
        with loaded_job.wrap_errors(loaded_job.job.locate("transform", transform_name, "sql")):
            return spark.sql(transform.sql)
    function = import_function(loaded_job, transform_name)
    [view] = loaded_job.job.list_inputs(transform_name)
    key_path = loaded_job.job.locate("transform", transform_name, "python")
    try:
        result: Any = function(views[view])
    except Exception as error:
        message = f"{transform.python} raised {type(error).__name__}: {summarize(error)}"
        raise loaded_job.make_error(key_path, message) from error
    if not hasattr(result, "writeStream"):
        message = f"{transform.python} returned {type(result).__name__}, not a DataFrame"
        raise loaded_job.make_error(key_path, message)
    frame: DataFrame = result
    return frame


def drop_kafka_struct(frame: DataFrame) -> DataFrame:
    """Drop the struct of Kafka's columns, which only the job itself needs."""
    check_kafka_struct(frame)
    return frame.drop(KAFKA)


def check_kafka_struct(frame: DataFrame) -> None:
    """Raise ValueError if a column is named like the struct but is not the struct."""
    has_struct = KAFKA in frame.columns and (
        tuple(getattr(frame.schema[KAFKA].dataType, "names", ())) == KAFKA_FIELDS
    )
    other_names = [name for name in frame.columns if not has_struct or name != KAFKA]
    check_reserved_names(other_names, [KAFKA], get_name_normalizer(frame.sparkSession))
