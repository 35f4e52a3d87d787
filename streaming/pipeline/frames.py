"""From a job's sources and transforms to the frame that a sink writes."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

from streaming.pipeline.failures import first_line
from streaming.pipeline.records import KAFKA, Parsed, parse
from streaming.pipeline.schemas import schema_text
from streaming.pipeline.sinks_config import DeltaSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from streaming.pipeline.config import Transform
    from streaming.pipeline.loading import LoadedJob
    from streaming.pipeline.sinks_config import ConsoleSink, KafkaSink
    from streaming.pipeline.sources_config import Source

_SESSION_STRATEGY = "spark.assignor.strategy"


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
    upsert = sink.keys if isinstance(sink, DeltaSink) and sink.mode == "upsert" else None
    views: dict[str, DataFrame] = {}
    with _users_views_kept(spark, [*job.all_sources, *job.all_transforms]):
        for name in job.all_sources:
            rows = parsed_source(spark, loaded, name, for_upsert=upsert).rows
            views[name] = _timely(rows, job.all_sources[name], loaded, name)
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


def parsed_source(
    spark: SparkSession, loaded: LoadedJob, name: str, *, for_upsert: tuple[str, ...] | None = None
) -> Parsed:
    """Open a source and parse its records."""
    job = loaded.job
    source = job.all_sources[name]
    place = f"{job.place('source', name)}.records"
    reader = spark.readStream.format("kafka").options(**job.kafka_options(source.spark_options))
    of_session = spark.conf.get(_SESSION_STRATEGY, None)
    assignor = source.named_assignor(session_names_one=bool(of_session))
    if assignor is not None:
        reader = reader.option("assignor", assignor)
    frame = reader.load()
    try:
        schema = schema_text(source.records.schema_ or "", loaded.folder)
        return parse(frame, name, source.records, schema, for_upsert=for_upsert)
    except ValueError as error:
        raise loaded.error(place, str(error)) from None
    except Exception as error:
        raise loaded.error(place, first_line(error)) from error


def _timely(rows: DataFrame, source: Source, loaded: LoadedJob, name: str) -> DataFrame:
    place = loaded.job.place("source", name)
    try:
        if source.watermark:
            rows = rows.withWatermark(source.watermark.column, source.watermark.delay)
        if source.dedupe and source.watermark:
            rows = rows.dropDuplicatesWithinWatermark(list(source.dedupe))
        elif source.dedupe:
            rows = rows.dropDuplicates(list(source.dedupe))
    except Exception as error:
        raise loaded.error(place, first_line(error)) from error
    return rows


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
    """Leave out the struct of Kafka's columns, which only the job itself needs."""
    return frame.drop(KAFKA)
