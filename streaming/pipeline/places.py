"""Whether a job's tables and checkpoints can be written, asked before any of them is made.

Spark's own file system is asked (S3, HDFS, …): a small file is written where the job would write,
and taken away again together with the folders that were made for it.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from streaming.pipeline.failures import JobError, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from streaming.pipeline.config import Job
    from streaming.pipeline.loading import LoadedJob


def check_places(spark: SparkSession, loaded: LoadedJob) -> None:
    """Check every folder that the job writes to.

    Raises
    ------
    JobError
        For the first that cannot be written.
    """
    for place, what, path in _places(loaded.job):
        try:
            _try_to_write(spark, path)
        except Exception as error:
            said = f"{place}: {what} {path!r} cannot be written: {first_line(error)}"
            raise JobError(loaded.redact(f"{loaded.title}: {said}")) from error


def absolute(spark: SparkSession, text: str) -> str:
    """Give a path with its file system, as Spark takes it."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(text)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return str(files.makeQualified(path).toString())


def _places(job: Job) -> Iterator[tuple[str, str, str]]:
    for place, table in job.tables():
        if table.path is not None:
            yield place, "the table", table.path
    if job.checkpoint is not None:
        yield "checkpoint", "the folder", job.checkpoint


def _try_to_write(spark: SparkSession, text: str) -> None:
    jvm: Any = spark.sparkContext._jvm
    folder = jvm.org.apache.hadoop.fs.Path(text)
    files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    made = []
    above = folder
    while above is not None and not files.exists(above):
        made.append(above)
        above = above.getParent()
    probe = jvm.org.apache.hadoop.fs.Path(folder, f"_assignor_probe_{uuid.uuid4().hex}")
    try:
        files.create(probe, True).close()
        files.delete(probe, False)
    finally:
        for path in made:  # the innermost first; one that is not empty stays
            if files.exists(path) and not files.listStatus(path):
                files.delete(path, False)
