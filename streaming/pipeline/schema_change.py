"""Check that a new schema puts no record into a table and the dead letter, or into neither.

Which records are good is decided twice: by the query of each sink, and by that of the dead letters.
Each query decides when it reads a record. If the schema changes while they are at different
offsets, a record between these is judged by the old schema in one query and by the new one in the
other. So a job keeps how its records were judged in a file of its checkpoint. After a change, the
next start compares both judgements for the records that some query has read and another has not.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from checkpoints.offset_log import read_position
from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.config.files import schema_text
from streaming.pipeline.config.sources import Records
from streaming.pipeline.errors import JobError, TableError, first_line
from streaming.pipeline.spark.folders import read_file, write_file
from streaming.pipeline.spark.frames import upserts_of
from streaming.pipeline.spark.records import UpsertKeys, parse_records, format_position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from streaming.pipeline.config.loading import LoadedJob
    from streaming.pipeline.queries import Query

#: How the records of a source are judged, as JSON.
Judgement = dict[str, Any]
#: Offsets `[from, until)` by topic and partition.
Gaps = dict[tuple[str, int], tuple[int, int]]

_FILE = ".assignor-schemas.json"
#: Kafka's number for the first offset that is still there.
_EARLIEST = -2


def check_schema_change(spark: SparkSession, loaded: LoadedJob, queries: Sequence[Query]) -> None:
    """Raise JobError if a changed schema would put a record into two places, or into none."""
    job = loaded.job
    if job.checkpoint is None or not any(s.records.dead_letter for s in job.all_sources.values()):
        return
    with loaded.at("checkpoint", JobError, f"{_FILE!r} cannot be read: "):
        last, now = _read(spark, job.checkpoint), _judgements(loaded)
        if last is None:
            raise ValueError("it is damaged; restore it, or remove it if no schema has changed")
    for name, source in job.all_sources.items():
        before = last.get(name)
        if source.records.dead_letter is None or before is None or before == now[name]:
            continue
        options = job.kafka_options(source.spark_options)
        readers = [query for query in queries if query.reads(options)]
        with loaded.at(job.place("source", name, "records"), JobError):
            gaps = _gaps(spark, readers, options)
            if not gaps:
                continue
            kafka = {key: text for key, text in options.items() if key.startswith("kafka.")}
            record = _first_difference(_records(spark, kafka, gaps), name, before, now[name])
            if record is not None:
                names = ", ".join(repr(query.name) for query in readers)
                raise TableError(
                    f"the schema has changed, and the record at {record} is good by one and bad by "
                    f"the other, but not all queries of the source ({names}) have read it: it "
                    "could get into a table and the dead letter, or into neither; run the job as "
                    "it was until all have read it, with no such records coming in, then change it"
                )


def remember_judgements(spark: SparkSession, loaded: LoadedJob) -> None:
    """Write down how the records of each source are judged from now on."""
    checkpoint, now = loaded.job.checkpoint, _judgements(loaded)
    if checkpoint is None or not now:
        return
    with loaded.at("checkpoint", JobError, f"{_FILE!r} cannot be written: "):
        if _read(spark, checkpoint) != now:
            write_file(spark, f"{checkpoint.rstrip('/')}/{_FILE}", json.dumps(now))


def _judgements(loaded: LoadedJob) -> dict[str, Judgement]:
    """Return all that decides which records of a source are good, by source.

    What happens to bad ones is left out, and so are defaults, which another version may add to.
    """
    job = loaded.job
    judgements: dict[str, Judgement] = {}
    for name, source in job.all_sources.items():
        records = source.records.model_dump(
            mode="json", by_alias=True, exclude_defaults=True,
            exclude={"bad_records", "dead_letter"},
        )  # fmt: skip
        if source.records.schema_ is None:
            continue
        sinks = [sink for sink in job.all_sinks.values() if name in job.sources_of(sink)]
        upserts = [[list(keys), makes_keys] for keys, makes_keys in upserts_of(job, sinks)]
        text = schema_text(loaded, name)
        judgements[name] = {"records": {**records, "schema": text}, "upserts": sorted(upserts)}
    return judgements


def _read(spark: SparkSession, checkpoint: str) -> dict[str, Judgement] | None:
    """Return the judgements of the last run; None for a damaged file, none by an older version."""
    raw = read_file(spark, f"{checkpoint.rstrip('/')}/{_FILE}")
    try:
        judgements = json.loads(raw or b"{}")
    except ValueError:
        return None
    return judgements if isinstance(judgements, dict) else None


def _gaps(spark: SparkSession, queries: Iterable[Query], options: dict[str, str]) -> Gaps:
    """Return what some query may have read and another may have not.

    A query has read up to the end of its last completed batch. The batch after it, if one was
    planned, may be in its table already and is then not written again.
    """
    spans = []
    for query in queries:
        position = read_position(HadoopFolder(query.checkpoint or "", spark))
        for number in query.reads(options):
            done, planned = (of.get(str(number), {}) for of in position)
            spans.append({
                (topic, partition): (done.get(topic, {}).get(partition, 0), end)
                for topic, ends in planned.items() for partition, end in ends.items()
            })  # fmt: skip
    gaps = {}
    for place in sorted({place for span in spans for place in span}):
        starts, ends = zip(*(span.get(place, (0, 0)) for span in spans), strict=True)
        if min(starts) < max(ends):
            gaps[place] = (min(starts), max(ends))
    return gaps


def _records(spark: SparkSession, kafka: dict[str, str], gaps: Gaps) -> DataFrame:
    """Return the records of these offsets that are still there."""
    partitions: dict[str, list[int]] = {}
    begins: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), (begin, end) in gaps.items():
        partitions.setdefault(topic, []).append(partition)
        begins.setdefault(topic, {})[str(partition)] = begin or _EARLIEST
        ends.setdefault(topic, {})[str(partition)] = end
    options = {
        "assign": json.dumps(partitions), "startingOffsets": json.dumps(begins),
        "endingOffsets": json.dumps(ends), "failOnDataLoss": "false",
    }  # fmt: skip
    return spark.read.format("kafka").options(**kafka, **options).load()


def _first_difference(frame: DataFrame, name: str, before: Judgement, now: Judgement) -> str | None:
    """Return the place of a record that only one of two judgements takes for bad."""
    try:
        bad = [_bad(frame, f"{name} {when}", by) for when, by in (("before", before), ("now", now))]
        once = bad[0].unionAll(bad[1]).groupBy("place").count().where("count = 1")
        differing = once.orderBy("place").first()
    except Exception as error:
        is_older = isinstance(error, ValidationError)
        why = "another version wrote it" if is_older else first_line(error)
        raise TableError(
            f"the schema has changed, and it cannot be compared with that of the last run ({why}): "
            "run the job as it was until all queries of the source have read the same records"
        ) from error
    return None if differing is None else str(differing["place"])


def _bad(frame: DataFrame, name: str, judgement: Judgement) -> DataFrame:
    records = Records.model_validate(judgement["records"])
    upserts = [UpsertKeys(tuple(keys), makes_keys) for keys, makes_keys in judgement["upserts"]]
    bad = parse_records(frame, name, records, judgement["records"]["schema"], upserts=upserts).bad
    assert bad is not None  # noqa: S101  (raw records are not judged)
    return bad.select(format_position("topic", "partition", "offset").alias("place"))
