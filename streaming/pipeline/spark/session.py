"""The Spark that `assignor run` starts: Delta, the bridge, and Avro when a source needs it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from assignor_bridge.jars import connector_coordinate
from assignor_bridge.session import spark_defaults
from streaming.delta.session import EXTENSION, configure_delta, delta_coordinate
from streaming.observe.masters import find_reachable_address, parse_addresses
from streaming.pipeline.errors import ConfigError, JobError
from streaming.pipeline.spark.jvm import start_context
from streaming.redaction import LOGINS, SECRET_KEYS, SECRET_OPTIONS, has_login, is_secret_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from streaming.pipeline.config.job import Job

#: Jobs ask the driver's JVM about tables, folders and progress, and a client has none.
NO_CONNECT = (
    "a job cannot run in a session of Spark Connect: run it where the driver is, with "
    "`assignor run` or spark-submit (a single stream can use the option through Connect)"
)
_PACKAGES = "spark.jars.packages"
_EXTENSIONS = "spark.sql.extensions"
_SETTINGS = {"spark.ui.showConsoleProgress": "false"}
_COMPILED = "spark.sql.codegen.cache.maxEntries"
#: Pieces of generated code that each JVM of Spark keeps. A merge has about 80: what falls out is
#: compiled again in each batch. Each checkpoint of a table's log is a new piece of some 80 KB, as
#: its version is in the code, so that a cache is always filled some day.
_KEPT_PIECES = 100
#: What Spark hides in its UI and event log, where an operator may hide more.
_REDACTED = {
    # Spark's own pattern knows few names of secrets.
    "spark.redaction.regex": f"{SECRET_KEYS}|{LOGINS}",
    # The plan of a view, which is in both, shows all options of a source.
    "spark.sql.redaction.string.regex": SECRET_OPTIONS,
}
_STANDALONE = "spark://"
#: For Spark on this machine alone: 200 state stores, and 50 tasks to read a table's log, which each
#: batch does, are many.
_LOCAL = {
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.databricks.delta.snapshotPartitions": "1",
    # Hadoop starts ten processes for each small file of Spark's and Delta's logs.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "io.assignorbridge.LocalFiles",
}
#: Without it the names of tables are gone when Spark ends.
_LASTING_CATALOG = {"spark.sql.catalogImplementation": "hive"}
#: Settings that are read by a session alone: the command line of its JVM can do without them.
_OF_SESSIONS = ("spark.hadoop.", "spark.sql.")
#: With one of these in the environment, pyspark makes sessions of Spark Connect.
_CONNECT = "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"
#: Loggers of pyspark that write an error to stderr as one line of JSON with all of its traces.
_NOISY = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def avro_coordinate() -> str:
    """Return the coordinate of Spark's Avro functions; of the same version as the connector's."""
    return connector_coordinate().replace("spark-sql-kafka-0-10", "spark-avro")


def job_packages(job: Job) -> list[str]:
    """Name the packages that a job needs in addition to the bridge's own."""
    has_avro = any(source.records.format == "avro" for source in job.all_sources.values())
    return [delta_coordinate(), *([avro_coordinate()] if has_avro else [])]


def is_submitted() -> bool:
    """Whether `spark-submit` has started Spark, and its JVM is there already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_master(master: str) -> None:
    """Raise JobError when no master of a standalone cluster answers: Spark tries for a minute."""
    if not master.startswith(_STANDALONE):
        return
    try:
        find_reachable_address(parse_addresses(master))
    except ConnectionError as error:
        raise JobError(f"spark.master: no master answers ({error})") from None
    except ValueError as error:
        raise ConfigError(f"spark.master: {error}") from None


def session_for(job: Job, starting: AbstractContextManager[None] | None = None) -> SparkSession:
    """Start Spark for a job, or join the one that `spark-submit` started.

    `starting` is entered while the JVM starts, when all that it needs is there.
    """
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from assignor_bridge import configure_spark

    for name in _NOISY:  # the error is told in one line
        PySparkLogger.getLogger(name).disabled = True
    logging.getLogger("py4j").propagate = False
    logging.getLogger().addFilter(_is_not_py4js)
    if _is_connect(job.spark):
        raise ConfigError(NO_CONNECT)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if os.environ.get("LC_ALL") in ("C", "POSIX"):  # Java would spoil file names beyond ASCII
        os.environ["LC_ALL"] = "C.UTF-8"
    operators = _of_operators()
    settings = {**_SETTINGS, **_compiled(job, operators), **_redacted(operators), **job.spark}
    settings[_EXTENSIONS] = _extensions(job, operators)
    own = [item for item in settings.pop(_PACKAGES, "").split(",") if item]
    if not is_submitted():
        master = job.spark.get("spark.master") or operators.get("spark.master", "local")
        if master.startswith("local"):
            # What is set on the builder goes before the operator's.
            local = {key: value for key, value in _LOCAL.items() if key not in operators}
            settings = {**local, **settings}
        check_master(master)
        if any(table.table for _, table in job.tables):
            settings = {**_LASTING_CATALOG, **settings}
    builder = configure_delta(SparkSession.builder.appName(job.name))
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder = configure_spark(builder.config(_PACKAGES, ",".join([*own, *job_packages(job)])))
    with starting or contextlib.nullcontext():
        options: dict[str, Any] = builder._options
        # All users of a machine can read the command line of its JVM.
        shown = {key: value for key, value in options.items() if not _is_secret(key, value)}
        start_context(options, shown)
        return builder.getOrCreate()


def _is_not_py4js(record: logging.LogRecord) -> bool:
    """Leave out the traceback that py4j logs of a call whose JVM has ended."""
    return record.module != "java_gateway"


def _is_connect(settings: Mapping[str, str]) -> bool:
    """Whether pyspark would make a session of Spark Connect, by an address or by its mode."""
    if "spark.remote" in settings or settings.get("spark.master", "").startswith("sc://"):
        return True
    if any(os.environ.get(name) for name in _CONNECT):
        return True
    from pyspark.util import default_api_mode

    mode = settings.get("spark.api.mode", os.environ.get("SPARK_API_MODE", "")).lower()
    return (mode if mode in ("classic", "connect") else default_api_mode()) == "connect"


def _of_operators() -> dict[str, str]:
    """Return what is set outside of the job: in spark-defaults.conf, by spark-submit's flags."""
    from pyspark import SparkConf, SparkContext

    if not is_submitted():
        return spark_defaults()
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _extensions(job: Job, operators: Mapping[str, str]) -> str:
    """Return Delta's extension of SQL, and those of the job or else of the operator."""
    others = job.spark.get(_EXTENSIONS) or operators.get(_EXTENSIONS, "")
    named = [EXTENSION, *(name.strip() for name in others.split(",") if name.strip())]
    return ",".join(dict.fromkeys(named))


def _compiled(job: Job, operators: Mapping[str, str]) -> dict[str, str]:
    """Let Spark keep the generated code of each merge, too, unless an operator says how much."""
    merges = sum(table.mode == "upsert" for _, table in job.tables)
    if not merges or _COMPILED in operators:
        return {}
    return {_COMPILED: f"{_KEPT_PIECES * (1 + merges)}"}


def _redacted(operators: Mapping[str, str]) -> dict[str, str]:
    """Return patterns that hide what we know of in addition to what the operator hides."""
    return {
        key: f"{operators[key]}|{ours}" if operators.get(key) else ours
        for key, ours in _REDACTED.items()
    }


def _is_secret(key: str, value: Any) -> bool:
    return is_secret_key(key) or (key.startswith(_OF_SESSIONS) and has_login(str(value)))
