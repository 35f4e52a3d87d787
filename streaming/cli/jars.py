"""`assignor jars`: what `spark-submit` must be given so that it has the bridge."""

from typing import Annotated

import orjson
import typer

from assignor_bridge.jars import packages


def jars(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of flags.")] = False,
) -> None:
    """Print the flags that add the bridge and Spark's Kafka connector to spark-submit.

    In a shell: spark-submit $(assignor jars) job.py
    """
    found = packages()
    if as_json:
        content = {"packages": list(found.coordinates), "repositories": [found.repository]}
        typer.echo(orjson.dumps(content).decode())
    else:
        coordinates = ",".join(found.coordinates)
        typer.echo(f"--packages {coordinates} --repositories {found.repository}")
