"""`assignor schema`: the JSON Schema of a job, for editors."""

import orjson
import typer

from streaming.pipeline.config import json_schema


def schema() -> None:
    """Print the JSON Schema of a job's YAML, for editors that complete and check it."""
    typer.echo(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2).decode())
