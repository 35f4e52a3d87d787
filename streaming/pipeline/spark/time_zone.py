"""Choose and record a job's time zone, which Spark applies to times without a zone.

Spark's default is the machine's zone: a job would write different rows on another machine, and an
upsert would compare times from two zones. So `assignor run` uses UTC unless a zone is configured,
and records the zone of the first run in the job's checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.spark.job_folders import read_file, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.pipeline.config.job import Job

_LOG = logging.getLogger(__name__)
TIME_ZONE = "spark.sql.session.timeZone"
_FILE = ".assignor.zone"


def use_default_time_zone(spark: SparkSession, job: Job) -> str | None:
    """Set the session's zone and return it; return None if a zone is configured already.

    1. Use the zone of the job's earlier runs.
    2. Otherwise use the machine's zone, if an earlier version, which recorded none, ran the job.
    3. Otherwise use UTC.
    """
    if spark.sparkContext.getConf().contains(TIME_ZONE):
        return None
    zone = None
    if job.checkpoint is not None:
        zone = _read_record(spark, job.checkpoint)  # 1
        if zone is None and _has_run(HadoopFolder(job.checkpoint, spark)):  # 2
            zone = str(spark.conf.get(TIME_ZONE))
            message = (
                "%s: this job used the machine's time zone before and keeps it (%s), while new "
                "jobs use UTC; set %s to make it explicit"
            )
            _LOG.warning(message, job.name, zone, TIME_ZONE)
    zone = zone or "UTC"  # 3
    spark.conf.set(TIME_ZONE, zone)
    return zone


def record_time_zone(spark: SparkSession, job: Job) -> None:
    """Record the session's zone if none is recorded; warn if the recorded one has other rules."""
    if job.checkpoint is None:
        return
    zone = str(spark.conf.get(TIME_ZONE))
    old_zone = _read_record(spark, job.checkpoint)
    if old_zone is None:
        write_file(spark, _get_record_path(job.checkpoint), zone)
    elif _get_zone_rules(spark, old_zone) != _get_zone_rules(spark, zone):
        message = (
            "%s: times without a zone were read as %s in earlier runs and are read as %s now, so "
            "they differ by the offset between the two: set %s back to %s"
        )
        _LOG.warning(message, job.name, old_zone, zone, TIME_ZONE, old_zone)


def _get_record_path(checkpoint: str) -> str:
    return f"{checkpoint.rstrip('/')}/{_FILE}"


def _read_record(spark: SparkSession, checkpoint: str) -> str | None:
    content = read_file(spark, _get_record_path(checkpoint))
    return content.decode("utf-8", "replace").strip() or None if content is not None else None


def _has_run(folder: HadoopFolder) -> bool:
    queries = (name for name in folder.names("") if not name.startswith("."))
    return any(folder.names(f"{query}/offsets") for query in queries)


def _get_zone_rules(spark: SparkSession, zone: str) -> Any:
    """Return the zone's rules, which are equal for two names of one zone; None if it is invalid."""
    jvm: Any = spark._jvm
    with contextlib.suppress(Exception):
        return jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone).getRules()
    return None
