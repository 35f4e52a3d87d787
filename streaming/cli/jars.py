"""`assignor jars`: what `spark-submit` must be given so that it has the bridge."""

import json
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.jars import packages


def jars(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of flags.")] = False,
    job: Annotated[
        Path | None,
        typer.Option(metavar="JOB.yaml", help="Also what this job needs: Delta, Avro."),
    ] = None,
) -> None:
    """Print the flags that add the bridge and Spark's Kafka connector to spark-submit.

    In a shell: spark-submit $(assignor jars) job.py
    """
    bridge = packages()
    names = [*bridge.coordinates, *(_packages_of(job) if job else [])]
    if as_json:
        typer.echo(json.dumps({"packages": names, "repositories": [bridge.repository]}))
    else:
        typer.echo(f"--packages {','.join(names)} --repositories {bridge.repository}")


def _packages_of(job: Path) -> list[str]:
    from streaming.pipeline.config.loading import load_job  # its models take a while to import
    from streaming.pipeline.spark.session import job_packages

    return job_packages(load_job(job).job)
