"""From a job's sources and transforms to the frame that a sink writes."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from typing import TYPE_CHECKING, Any

from streaming.pipeline.delta_table import TableError
from streaming.pipeline.failures import first_line
from streaming.pipeline.fit import sources_of
from streaming.pipeline.names import clashing, folding
from streaming.pipeline.records import KAFKA, KAFKA_FIELDS, Parsed, Upsert, parse
from streaming.pipeline.schemas import schema_text
from streaming.pipeline.sinks_config import DeltaSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from streaming.pipeline.config import Job, Transform
    from streaming.pipeline.loading import LoadedJob
    from streaming.pipeline.sinks_config import ConsoleSink, KafkaSink
    from streaming.pipeline.sources_config import Source

_SESSION_STRATEGY = "spark.assignor.strategy"
_KAFKAS_KEY = re.compile(rf"\b{KAFKA}`?\s*\.\s*(?:`?key\b|\*)", re.IGNORECASE)
#: What tells tombstones apart for `dedupe`; null for rows.
_TOMBSTONE = "__tombstone"


def frame_of_sink(
    spark: SparkSession, loaded: LoadedJob, sink: DeltaSink | ConsoleSink | KafkaSink
) -> DataFrame:
    """Build the frame of one sink; views are registered on the way and taken away again.

    Raises
    ------
    ConfigError
        When a schema, an expression or a column does not fit; with the place in the config.
    """
    job = loaded.job
    upserts = [_upsert(job, sink)] if _is_upsert(sink) else []
    views: dict[str, DataFrame] = {}
    with _users_views_kept(spark, [*job.all_sources, *job.all_transforms]):
        for name in job.all_sources:
            rows = parsed_source(spark, loaded, name, upserts=upserts).rows
            views[name] = _timely(
                rows, job.all_sources[name], loaded, name, has_deletes=bool(upserts)
            )
            views[name].createOrReplaceTempView(name)
        before = next(iter(views)) if len(views) == 1 else None
        for name, transform in job.all_transforms.items():
            views[name] = _transformed(spark, loaded, name, transform, views, before=before)
            views[name].createOrReplaceTempView(name)
            before = name
    return views[sink.from_ or list(views)[-1]]


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


def _is_upsert(sink: DeltaSink | ConsoleSink | KafkaSink) -> bool:
    return isinstance(sink, DeltaSink) and sink.mode == "upsert"


def _upsert(job: Job, sink: Any) -> Upsert:
    """Tell the parser of an upsert; a transform that sees Kafka's key may make columns of it."""
    steps = job.all_transforms.values()
    return Upsert(
        sink.keys, any(step.sql is None or _KAFKAS_KEY.search(step.sql) for step in steps)
    )


def bad_records(spark: SparkSession, loaded: LoadedJob, name: str) -> DataFrame:
    """Give what is bad in a source: to its schema, or to an upsert that reads it."""
    job = loaded.job
    upserts = [
        _upsert(job, sink)
        for sink in job.all_sinks.values()
        if _is_upsert(sink) and name in sources_of(job, sink)
    ]
    bad = parsed_source(spark, loaded, name, upserts=upserts).bad
    assert bad is not None  # noqa: S101  (raw records have no dead letter)
    return bad


def parsed_source(
    spark: SparkSession, loaded: LoadedJob, name: str, *, upserts: Sequence[Upsert]
) -> Parsed:
    """Open a source and parse its records."""
    job = loaded.job
    source = job.all_sources[name]
    place = f"{job.place('source', name)}.records"
    reader = spark.readStream.format("kafka").options(**job.kafka_options(source.spark_options))
    if source.assignor != "none" and not (
        "assignor" not in source.model_fields_set and spark.conf.get(_SESSION_STRATEGY, None)
    ):
        reader = reader.option("assignor", source.assignor)
    frame = reader.load()
    try:
        schema = schema_text(source.records.schema_ or "", loaded.folder)
        return parse(frame, name, source.records, schema, upserts=upserts)
    except ValueError as error:
        raise loaded.error(place, str(error)) from None
    except Exception as error:
        raise loaded.error(place, first_line(error)) from error


def _timely(
    rows: DataFrame, source: Source, loaded: LoadedJob, name: str, *, has_deletes: bool
) -> DataFrame:
    place = loaded.job.place("source", name)
    try:
        if source.watermark:
            rows = rows.withWatermark(source.watermark.column, source.watermark.delay)
        if source.dedupe:
            rows = _without_repeats(rows, source, has_deletes=has_deletes)
    except Exception as error:
        raise loaded.error(place, first_line(error)) from error
    return rows


def _without_repeats(rows: DataFrame, source: Source, *, has_deletes: bool) -> DataFrame:
    """Drop repeated rows. A tombstone repeats nothing: of its columns it has the key only."""
    from pyspark.sql import functions as f

    columns = list(source.dedupe)
    if has_deletes:
        place = f.struct(*(f"{KAFKA}.{part}" for part in ("topic", "partition", "offset")))
        rows = rows.withColumn(_TOMBSTONE, f.when(f.col(f"{KAFKA}.tombstone"), place))
        columns.append(_TOMBSTONE)
    once = (
        rows.dropDuplicatesWithinWatermark(columns)
        if source.watermark
        else rows.dropDuplicates(columns)
    )
    return once.drop(_TOMBSTONE)


def _transformed(
    spark: SparkSession,
    loaded: LoadedJob,
    name: str,
    transform: Transform,
    views: dict[str, DataFrame],
    *,
    before: str | None,
) -> DataFrame:
    place = loaded.job.place("transform", name)
    if transform.sql is not None:
        try:
            return spark.sql(transform.sql)
        except Exception as error:
            raise loaded.error(f"{place}.sql", first_line(error)) from error
    function = python_function(loaded, place, transform.python or "")
    given = views[transform.from_ or before or ""]
    try:
        made: Any = function(given)
    except Exception as error:
        said = f"{transform.python} raised {type(error).__name__}: {first_line(error)}"
        raise loaded.error(f"{place}.python", said) from error
    if not hasattr(made, "writeStream"):
        said = f"{transform.python} gave {type(made).__name__}, a DataFrame is expected"
        raise loaded.error(f"{place}.python", said)
    frame: DataFrame = made
    return frame


def python_function(loaded: LoadedJob, place: str, name: str) -> Callable[[DataFrame], DataFrame]:
    """Import `package.module:function`; the folder of the job's YAML is looked in, too."""
    module_name, _, attribute = name.partition(":")
    folder = str(loaded.folder.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise loaded.error(f"{place}.python", f"{name!r} cannot be imported: {error}") from None
    if not callable(found):
        raise loaded.error(f"{place}.python", f"{name!r} is not a function")
    function: Callable[[DataFrame], DataFrame] = found
    return function


def without_kafka(frame: DataFrame) -> DataFrame:
    """Leave out the struct of Kafka's columns, which only the job itself needs.

    Raises
    ------
    TableError
        When a column of that name is not ours.
    """
    check_kafka_is_ours(frame)
    return frame.drop(KAFKA)


def check_kafka_is_ours(frame: DataFrame) -> None:
    """Check that a column of the struct's name is the struct."""
    for name in clashing(frame.columns, [KAFKA], folding(frame.sparkSession)):
        kind: Any = frame.schema[name].dataType
        if name != KAFKA or tuple(getattr(kind, "names", ())) != KAFKA_FIELDS:
            raise TableError(f"the column {name!r} has a name that is ours: use another")
