"""`assignor lab schema`: print the JSON Schema of a job, for editors."""

import json

import typer


def schema() -> None:
    """Print the JSON Schema of job files, which editors use to complete and check them.

    Example: `assignor lab schema > job.schema.json`
    """
    from streaming.pipeline.config.job import build_json_schema  # its models take a while to import

    typer.echo(json.dumps(build_json_schema(), indent=2, ensure_ascii=False))
