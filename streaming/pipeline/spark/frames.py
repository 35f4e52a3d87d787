"""From a job's sources and transforms to the frame that a sink writes."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from streaming.pipeline.config.files import python_function, schema_text
from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.errors import first_line
from streaming.pipeline.spark.columns import check_reserved_names, get_name_normalizer
from streaming.pipeline.spark.records import (
    KAFKA,
    KAFKA_FIELDS,
    REASON,
    ParsedSource,
    UpsertKeys,
    parse_records,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from streaming.pipeline.config.job import Job
    from streaming.pipeline.config.loading import LoadedJob
    from streaming.pipeline.config.sinks import Sink
    from streaming.pipeline.config.sources import Source

_SESSION_STRATEGY = "spark.assignor.strategy"
_KAFKAS_KEY = re.compile(rf"\b{KAFKA}`?\s*\.\s*(?:`?key\b|\*)", re.IGNORECASE)
#: What tells tombstones apart for `dedupe`; null for rows.
_TOMBSTONE = "__tombstone"


def frame_of_sink(spark: SparkSession, loaded: LoadedJob, sink: Sink) -> DataFrame:
    """Build the frame of one sink; views are registered on the way and taken away again."""
    job = loaded.job
    upserts = upserts_of(job, [sink])
    views: dict[str, DataFrame] = {}
    with _users_views_kept(spark, [*job.all_sources, *job.all_transforms]):
        for name, source in job.all_sources.items():
            rows = _parsed(spark, loaded, name, upserts=upserts).rows
            with loaded.at(job.place("source", name)):
                views[name] = _timely(rows, source, has_deletes=bool(upserts))
            views[name].createOrReplaceTempView(name)
        for name in job.all_transforms:
            views[name] = _transformed(spark, loaded, name, views)
            views[name].createOrReplaceTempView(name)
    return views[job.view_of(sink)]


@contextlib.contextmanager
def _users_views_kept(spark: SparkSession, names: list[str]) -> Iterator[None]:
    """Take the job's views away at the end, and put the session's own ones of these names back."""
    own = {}
    for name in names:
        if spark.catalog.tableExists(name) and spark.catalog.getTable(name).isTemporary:
            own[name] = spark.table(name)
    try:
        yield
    finally:
        for name in names:
            spark.catalog.dropTempView(name)
        for name, frame in own.items():
            frame.createOrReplaceTempView(name)


def upserts_of(job: Job, sinks: Sequence[Sink]) -> list[UpsertKeys]:
    """Tell the parser of upserts; a transform that sees Kafka's key may make columns of it."""
    steps = job.all_transforms.values()
    makes_keys = any(step.sql is None or bool(_KAFKAS_KEY.search(step.sql)) for step in steps)
    return [
        UpsertKeys(sink.keys, makes_keys)
        for sink in sinks
        if isinstance(sink, DeltaSink) and sink.mode == "upsert"
    ]


def bad_records(spark: SparkSession, loaded: LoadedJob, name: str, to: Sink) -> DataFrame:
    """Return what is bad in a source: to its schema, or to an upsert that reads it."""
    job = loaded.job
    sinks = [sink for sink in job.all_sinks.values() if name in job.sources_of(sink)]
    bad = _parsed(spark, loaded, name, upserts=upserts_of(job, sinks)).bad
    assert bad is not None  # noqa: S101  (raw records have no dead letter)
    table = ("topic", "partition", "offset", "timestamp", "key", "value", REASON)
    return bad.select(*(table if isinstance(to, DeltaSink) else ("key", "value")))


def _parsed(
    spark: SparkSession, loaded: LoadedJob, name: str, *, upserts: Sequence[UpsertKeys]
) -> ParsedSource:
    """Open a source and parse_records its records."""
    job = loaded.job
    source = job.all_sources[name]
    reader = spark.readStream.format("kafka").options(**job.kafka_options(source.spark_options))
    of_session = spark.conf.get(_SESSION_STRATEGY, None)
    assignor = source.named_assignor(session_names_one=bool(of_session))
    if assignor is not None:
        reader = reader.option("assignor", assignor)
    with loaded.at(job.place("source", name)):
        frame = reader.load()
    with loaded.at(job.place("source", name, "records")):
        schema = schema_text(loaded, name)
        return parse_records(frame, name, source.records, schema, upserts=upserts)


def _timely(rows: DataFrame, source: Source, *, has_deletes: bool) -> DataFrame:
    """Set the watermark and drop repeated rows.

    A tombstone repeats nothing: of its columns it has the key only.
    """
    if source.watermark:
        rows = rows.withWatermark(source.watermark.column, source.watermark.delay)
    if not source.dedupe:
        return rows
    columns = list(source.dedupe)
    if has_deletes:
        check_reserved_names(rows.columns, [_TOMBSTONE], get_name_normalizer(rows.sparkSession))
        place = f.struct(*(f"{KAFKA}.{part}" for part in ("topic", "partition", "offset")))
        rows = rows.withColumn(_TOMBSTONE, f.when(f.col(f"{KAFKA}.tombstone"), place))
        columns.append(_TOMBSTONE)
    is_bounded = source.watermark is not None
    once = rows.dropDuplicatesWithinWatermark if is_bounded else rows.dropDuplicates
    return once(columns).drop(_TOMBSTONE) if has_deletes else once(columns)


def _transformed(
    spark: SparkSession, loaded: LoadedJob, name: str, views: dict[str, DataFrame]
) -> DataFrame:
    transform = loaded.job.all_transforms[name]
    if transform.sql is not None:
        with loaded.at(loaded.job.place("transform", name, "sql")):
            return spark.sql(transform.sql)
    function = python_function(loaded, name)
    [view] = loaded.job.inputs(name)
    place = loaded.job.place("transform", name, "python")
    try:
        made: Any = function(views[view])
    except Exception as error:
        words = f"{transform.python} raised {type(error).__name__}: {first_line(error)}"
        raise loaded.error(place, words) from error
    if not hasattr(made, "writeStream"):
        words = f"{transform.python} returned {type(made).__name__}, a DataFrame is expected"
        raise loaded.error(place, words)
    frame: DataFrame = made
    return frame


def without_kafka(frame: DataFrame) -> DataFrame:
    """Leave out the struct of Kafka's columns, which only the job itself needs."""
    check_kafka_is_ours(frame)
    return frame.drop(KAFKA)


def check_kafka_is_ours(frame: DataFrame) -> None:
    """Raise ValueError unless a column of the struct's name is the struct."""
    is_ours = KAFKA in frame.columns and (
        tuple(getattr(frame.schema[KAFKA].dataType, "names", ())) == KAFKA_FIELDS
    )
    others = [name for name in frame.columns if not is_ours or name != KAFKA]
    check_reserved_names(others, [KAFKA], get_name_normalizer(frame.sparkSession))
