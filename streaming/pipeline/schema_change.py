"""Check that, after a schema change, no record is in both a table and the dead letter, or neither.

Each sink query and the dead-letter query decide independently which records are good. If the schema
changes while they are at different offsets, one query has parsed the records in between with the
old schema, and another will parse them with the new schema. So a job saves its parsing rules in its
checkpoint. After a change, the next start compares the old and new rules on these records.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from checkpoints.offset_log import read_position
from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.config.referenced_files import read_schema
from streaming.pipeline.config.sources import Records
from streaming.pipeline.job_errors import JobError, TableError, summarize
from streaming.pipeline.spark.frames import collect_upserts
from streaming.pipeline.spark.job_folders import read_file, write_file
from streaming.pipeline.spark.records import Upsert, format_position, parse_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from streaming.pipeline.config.loading import LoadedJob
    from streaming.pipeline.queries import JobQuery

#: Settings that decide which records of a source are good, as JSON.
ParsingRules = dict[str, Any]
#: Offsets `[start, end)` by topic and partition.
Ranges = dict[tuple[str, int], tuple[int, int]]

_FILE = ".assignor-schemas.json"
#: Kafka's number for the earliest available offset.
_EARLIEST = -2


def check_schema_change(
    spark: SparkSession, loaded_job: LoadedJob, queries: list[JobQuery]
) -> None:
    """Raise JobError if a change of parsing rules could write a record twice, or not at all."""
    job = loaded_job.job
    if job.checkpoint is None or not any(s.records.dead_letter for s in job.all_sources.values()):
        return
    with loaded_job.wrap_errors("checkpoint", JobError, f"{_FILE!r} cannot be read: "):
        old_rules_by_source = _read_saved_rules(spark, job.checkpoint)
        rules_by_source = _collect_rules(loaded_job)
        if old_rules_by_source is None:
            raise ValueError("it is damaged; restore it, or remove it if no rule has changed")
    for name, source in job.all_sources.items():
        old_rules, new_rules = old_rules_by_source.get(name), rules_by_source.get(name)
        if source.records.dead_letter is None or old_rules is None or old_rules == new_rules:
            continue
        options = job.merge_kafka_options(source.spark_options)
        readers = [query for query in queries if query.find_source_numbers(options)]
        with loaded_job.wrap_errors(job.locate("source", name, "records"), JobError):
            gaps = _find_gaps(spark, readers, options)
            if not gaps:
                continue
            kafka_options = {k: v for k, v in options.items() if k.startswith("kafka.")}
            records = _read_records(spark, kafka_options, gaps)
            position = _find_first_difference(records, name, old_rules, rules_by_source[name])
            if position is not None:
                query_names = ", ".join(repr(query.name) for query in readers)
                raise TableError(
                    f"the schema or another parsing rule has changed, and the record at {position} "
                    "is good under either the old or the new rules, but not both; not all queries "
                    f"of the source ({query_names}) have read it, so it could be written to both a "
                    "table and the dead letter, or to neither: run the job with the old rules until"
                    " all have read it and no more such records arrive, then change the rules"
                )


def save_parsing_rules(spark: SparkSession, loaded_job: LoadedJob) -> None:
    """Save the current parsing rules of each source in the checkpoint."""
    checkpoint, rules_by_source = loaded_job.job.checkpoint, _collect_rules(loaded_job)
    if checkpoint is None or not rules_by_source:
        return
    with loaded_job.wrap_errors("checkpoint", JobError, f"{_FILE!r} cannot be written: "):
        if _read_saved_rules(spark, checkpoint) != rules_by_source:
            write_file(spark, f"{checkpoint.rstrip('/')}/{_FILE}", json.dumps(rules_by_source))


def _collect_rules(loaded_job: LoadedJob) -> dict[str, ParsingRules]:
    """Return the settings that decide which records are good, for each source with a schema."""
    job = loaded_job.job
    rules_by_source: dict[str, ParsingRules] = {}
    for name, source in job.all_sources.items():
        excluded_keys = {"bad_records", "dead_letter"}
        records = source.records.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude=excluded_keys
        )
        if source.records.schema_ is None:
            continue
        sinks = [sink for sink in job.all_sinks.values() if name in job.find_sources(sink)]
        upserts = [[list(x.keys), x.set_by_transform] for x in collect_upserts(job, sinks)]
        records["schema"] = read_schema(loaded_job, name)
        rules_by_source[name] = {"records": records, "upserts": sorted(upserts)}
    return rules_by_source


def _read_saved_rules(spark: SparkSession, checkpoint: str) -> dict[str, ParsingRules] | None:
    """Return the last run's rules by source; None if the file is damaged, empty without a file."""
    raw = read_file(spark, f"{checkpoint.rstrip('/')}/{_FILE}")
    try:
        rules_by_source = json.loads(raw or b"{}")
    except ValueError:
        return None
    return rules_by_source if isinstance(rules_by_source, dict) else None


def _find_gaps(spark: SparkSession, queries: Iterable[JobQuery], options: dict[str, str]) -> Ranges:
    """Return the offsets that one query may have read and another may not have read.

    A query has read its completed batches. Its planned batch may also be in the table already.
    """
    planned_ranges = []
    for query in queries:
        positions = read_position(HadoopFolder(query.checkpoint or "", spark))
        for number in query.find_source_numbers(options):
            completed_ends, planned_ends = (ends.get(str(number), {}) for ends in positions)
            ranges: Ranges = {}
            for topic, topic_ends in planned_ends.items():
                topic_starts = completed_ends.get(topic, {})
                ranges |= {(topic, n): (topic_starts.get(n, 0), e) for n, e in topic_ends.items()}
            planned_ranges.append(ranges)
    gaps: Ranges = {}
    for partition in sorted({partition for ranges in planned_ranges for partition in ranges}):
        starts, ends = zip(*(x.get(partition, (0, 0)) for x in planned_ranges), strict=True)
        if min(starts) < max(ends):
            gaps[partition] = (min(starts), max(ends))
    return gaps


def _read_records(spark: SparkSession, kafka_options: dict[str, str], gaps: Ranges) -> DataFrame:
    """Return the records at these offsets that still exist."""
    partitions_by_topic: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), (start, end) in gaps.items():
        partitions_by_topic.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = start or _EARLIEST
        ends.setdefault(topic, {})[str(partition)] = end
    offsets = {"startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends)}
    options = {"assign": json.dumps(partitions_by_topic), **offsets, "failOnDataLoss": "false"}
    return spark.read.format("kafka").options(**kafka_options, **options).load()


def _find_first_difference(
    frame: DataFrame, name: str, old_rules: ParsingRules, new_rules: ParsingRules
) -> str | None:
    """Return the position of a record that is bad under only one of the rules; None if none is.

    Raises TableError if the rules cannot be compared.
    """
    try:
        old_positions = _select_bad_positions(frame, f"{name} before", old_rules)
        new_positions = _select_bad_positions(frame, f"{name} now", new_rules)
        counts = old_positions.unionAll(new_positions).groupBy("position").count()
        first_row = counts.where("count = 1").orderBy("position").first()
    except Exception as error:
        is_incompatible = isinstance(error, ValidationError)
        reason = "another version wrote it" if is_incompatible else summarize(error)
        raise TableError(
            "the schema or another parsing rule has changed, and the new rules cannot be compared "
            f"with the last run's ({reason}): run the job with the old rules until all queries of "
            "the source have read the same records"
        ) from error
    return None if first_row is None else str(first_row["position"])


def _select_bad_positions(frame: DataFrame, name: str, rules: ParsingRules) -> DataFrame:
    records, schema_text = Records.model_validate(rules["records"]), rules["records"]["schema"]
    upserts = [Upsert(tuple(keys), set_by_transform) for keys, set_by_transform in rules["upserts"]]
    bad_records = parse_records(frame, name, records, schema_text, upserts=upserts).bad_records
    return bad_records.select(format_position("topic", "partition", "offset").alias("position"))
