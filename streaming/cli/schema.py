"""`assignor schema`: the JSON Schema of a job, for editors."""

import orjson
import typer


def schema() -> None:
    """Print the JSON Schema of a job's YAML, for editors that complete and check it."""
    from streaming.pipeline.config.job import json_schema  # its models take a while to import

    typer.echo(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2).decode())
