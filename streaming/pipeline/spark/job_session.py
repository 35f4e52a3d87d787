"""Start Spark for `assignor run`: with Delta, the bridge, and Avro if a source needs it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from assignor_bridge.jars import connector_coordinate
from assignor_bridge.session import read_spark_defaults
from streaming.delta.spark_settings import EXTENSION, configure_delta, delta_coordinate
from streaming.observe.masters import find_reachable_address, parse_addresses
from streaming.pipeline.job_errors import ConfigError, JobError
from streaming.pipeline.spark.jvm import start_context
from streaming.redaction import PASSWORDS, SECRET_KEYS, SECRET_OPTIONS, has_password, is_secret_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from streaming.pipeline.config.job import Job

#: A job calls the driver's JVM for tables, folders and progress; a Connect client has no JVM.
NO_CONNECT = (
    "a job cannot run in a Spark Connect session: run it on the driver, with `assignor run` "
    "or spark-submit (a single stream can use the assignor through Connect)"
)
_PACKAGES = "spark.jars.packages"
_EXTENSIONS = "spark.sql.extensions"
_DEFAULT_SETTINGS = {"spark.ui.showConsoleProgress": "false"}
_CODE_CACHE_SIZE = "spark.sql.codegen.cache.maxEntries"
#: Generated classes that a Spark JVM caches for each merge, and as many for all other work. A merge
#: uses about 80; classes that are not cached are compiled again in each batch. A larger cache would
#: only fill up: each checkpoint of a table's log adds a class of about 80 KB with its version.
_CACHED_CLASSES_PER_MERGE = 100
#: Default redaction patterns for Spark's UI and event log; an operator can extend them.
_REDACTION_PATTERNS = {
    # Spark's default pattern matches few names of secrets.
    "spark.redaction.regex": f"{SECRET_KEYS}|{PASSWORDS}",
    # UI and event log show a view's plan, which contains all source options.
    "spark.sql.redaction.string.regex": SECRET_OPTIONS,
}
_STANDALONE_PREFIX = "spark://"
#: Settings for local Spark, because the defaults (200 state stores, 50 log tasks) are too many.
_LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.databricks.delta.snapshotPartitions": "1",
    # Hadoop starts ten processes for each small file of Spark's and Delta's logs.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "io.assignorbridge.LocalFiles",
}
#: Setting that keeps table names after Spark ends.
_PERSISTENT_CATALOG = {"spark.sql.catalogImplementation": "hive"}
#: Prefixes of settings that only a session reads; the JVM's command line can omit them.
_SESSION_PREFIXES = ("spark.hadoop.", "spark.sql.")
#: If one of these variables is set, pyspark creates Spark Connect sessions.
_CONNECT_VARIABLES = "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"
#: pyspark's loggers that write errors with stack traces to stderr, as JSON.
_JSON_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def avro_coordinate() -> str:
    """Return the Maven coordinate of Spark's Avro functions, in the Kafka connector's version."""
    return connector_coordinate().replace("spark-sql-kafka-0-10", "spark-avro")


def list_packages(job: Job) -> list[str]:
    """Return the packages that a job needs in addition to the bridge's own."""
    has_avro = any(source.records.format == "avro" for source in job.all_sources.values())
    return [delta_coordinate(), *([avro_coordinate()] if has_avro else [])]


def is_submitted() -> bool:
    """Return whether `spark-submit` started this process and its JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_master(master: str) -> None:
    """Raise JobError if no standalone master answers, or ConfigError if its address is invalid."""
    if not master.startswith(_STANDALONE_PREFIX):
        return
    try:
        find_reachable_address(parse_addresses(master))
    except ConnectionError as error:
        raise JobError(f"spark.master: no master answers ({error})") from None
    except ValueError as error:
        raise ConfigError(f"spark.master: {error}") from None


def start_session(job: Job, startup: AbstractContextManager[None] | None = None) -> SparkSession:
    """Start Spark for a job, or return the session of `spark-submit`.

    `startup` is a context that is entered only while the JVM starts.
    """
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from assignor_bridge import configure_spark

    for name in _JSON_LOGGERS:  # the command prints errors in one line
        PySparkLogger.getLogger(name).disabled = True
    logging.getLogger("py4j").propagate = False
    logging.getLogger().addFilter(_is_not_from_py4j)
    if _is_connect(job.spark):
        raise ConfigError(NO_CONNECT)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if os.environ.get("LC_ALL") in ("C", "POSIX"):  # Java could not read non-ASCII file names
        os.environ["LC_ALL"] = "C.UTF-8"
    operator_conf = _read_operator_conf()
    settings = {**_DEFAULT_SETTINGS, **_get_code_cache_conf(job, operator_conf)}
    settings |= {**_get_redaction_conf(operator_conf), **job.spark}
    settings[_EXTENSIONS] = _join_extensions(job, operator_conf)
    packages = [item for item in settings.pop(_PACKAGES, "").split(",") if item]
    if not is_submitted():
        master = job.spark.get("spark.master") or operator_conf.get("spark.master", "local")
        if master.startswith("local"):
            # The builder's settings override the operator's.
            local_settings = {k: v for k, v in _LOCAL_SETTINGS.items() if k not in operator_conf}
            settings = {**local_settings, **settings}
        check_master(master)
        if any(table.table for _, table in job.tables):
            settings = {**_PERSISTENT_CATALOG, **settings}
    builder = configure_delta(SparkSession.builder.appName(job.name))
    for key, value in settings.items():
        builder = builder.config(key, value)
    packages += list_packages(job)
    builder = configure_spark(builder.config(_PACKAGES, ",".join(packages)))
    with startup or contextlib.nullcontext():
        options: dict[str, Any] = builder._options
        # All users of the machine can read the JVM's command line.
        public_options = {key: v for key, v in options.items() if not _is_secret(key, v)}
        start_context(options, public_options)
        return builder.getOrCreate()


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Return False for py4j's records, because py4j logs tracebacks after its JVM has ended."""
    return record.module != "java_gateway"


def _is_connect(settings: Mapping[str, str]) -> bool:
    """Return whether pyspark would create a Spark Connect session."""
    if "spark.remote" in settings or settings.get("spark.master", "").startswith("sc://"):
        return True
    if any(os.environ.get(name) for name in _CONNECT_VARIABLES):
        return True
    from pyspark.util import default_api_mode

    mode = settings.get("spark.api.mode", os.environ.get("SPARK_API_MODE", "")).lower()
    return (mode if mode in ("classic", "connect") else default_api_mode()) == "connect"


def _read_operator_conf() -> dict[str, str]:
    """Return the settings from spark-defaults.conf, or from spark-submit's flags."""
    from pyspark import SparkConf, SparkContext

    if not is_submitted():
        return read_spark_defaults()
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _join_extensions(job: Job, operator_conf: Mapping[str, str]) -> str:
    """Join Delta's SQL extension with the job's extensions, or else the operator's."""
    other_extensions = job.spark.get(_EXTENSIONS) or operator_conf.get(_EXTENSIONS, "")
    extensions = [EXTENSION, *filter(None, map(str.strip, other_extensions.split(",")))]
    return ",".join(dict.fromkeys(extensions))


def _get_code_cache_conf(job: Job, operator_conf: Mapping[str, str]) -> dict[str, str]:
    """Return a code cache size with room for each merge, unless the operator has set one."""
    merge_count = sum(table.mode == "upsert" for _, table in job.tables)
    if not merge_count or _CODE_CACHE_SIZE in operator_conf:
        return {}
    return {_CODE_CACHE_SIZE: f"{_CACHED_CLASSES_PER_MERGE * (1 + merge_count)}"}


def _get_redaction_conf(operator_conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the redaction patterns, combined with the operator's."""
    return {
        key: f"{operator_conf[key]}|{pattern}" if operator_conf.get(key) else pattern
        for key, pattern in _REDACTION_PATTERNS.items()
    }


def _is_secret(key: str, value: Any) -> bool:
    return is_secret_key(key) or (key.startswith(_SESSION_PREFIXES) and has_password(str(value)))
