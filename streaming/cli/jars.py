"""`assignor jars`: print the flags that add the bridge to `spark-submit`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.installed_spark import describe_mismatch, spark_version
from assignor_bridge.jars import prepare_packages
from assignor_bridge.tested_spark import describe_untested
from streaming.cli.output import note


def jars(
    job: Annotated[
        Path | None,
        typer.Argument(metavar="JOB.yaml", help="Also add this job's packages (Delta, Avro)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of flags.")] = False,
) -> None:
    """Print the flags that add the bridge and Spark's Kafka connector to spark-submit.

    They match the Spark in SPARK_HOME or, if it is not set, pip's pyspark.

    Example: `spark-submit $(assignor jars) job.py`
    """
    bridge = prepare_packages()
    if mismatch := describe_mismatch():
        note(f"{mismatch}: these flags are for Spark {spark_version()}")
    if untested_note := describe_untested(spark_version()):
        note(untested_note)
    coordinates = [*bridge.coordinates, *(_list_job_packages(job) if job else [])]
    if as_json:
        typer.echo(json.dumps({"packages": coordinates, "repositories": [bridge.repository]}))
    else:
        typer.echo(f"--packages {','.join(coordinates)} --repositories {bridge.repository}")


def _list_job_packages(job: Path) -> list[str]:
    from streaming.delta.spark_settings import describe_unknown_spark
    from streaming.pipeline.config.loading import load_job  # its models take a while to import
    from streaming.pipeline.spark.job_session import list_packages

    if unknown_note := describe_unknown_spark(spark_version()):
        note(unknown_note)
    return list_packages(load_job(job).job)
