"""The names that users and other programs rely on, compared with `contracts.json`.

A difference is either a mistake or a change for the changelog. The file is written by
`python -m tests.unit.test_contracts`.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import typer

from assignor_bridge.options import OPTIONS, PER_TOPIC, PlannerOptions
from assignor_bridge.protocol import messages
from streaming.cli.all import app
from streaming.metrics.names import METRICS
from streaming.pipeline.config.job import build_json_schema

CONTRACTS = Path(__file__).with_name("contracts.json")
_PROSE = {"title", "description", "examples"}


def read_contracts() -> dict[str, Any]:
    """Return options, job keys, metrics, commands, and protocol messages without their prose."""
    fields = [field for field in dataclasses.fields(PlannerOptions) if field.metadata]
    defaults = {field.metadata["option"].name: field.default for field in fields}
    structs = [m for m in vars(messages).values() if isinstance(m, type)]
    return {
        "options": {each.name: defaults.get(each.name) for each in (*OPTIONS, *PER_TOPIC)},
        "job": _without_prose(build_json_schema()["$defs"]),
        "metrics": {metric.name: metric.labels for metric in METRICS.values()},
        "commands": _commands(typer.main.get_command(app)),
        "messages": [
            [field.encode_name for field in msgspec.structs.fields(struct)]
            for struct in structs
            if issubclass(struct, messages.Message) and struct is not messages.Message
        ],
    }


def _without_prose(schema: Any) -> Any:
    """Return the properties of each kind of object; the kinds' own names may change."""
    return sorted(
        (sorted(kind.get("properties", {})), sorted(kind.get("required", [])), kind.get("enum"))
        for kind in schema.values()
    )


def _commands(command: Any) -> Any:
    """Return the flags of each command, the hidden ones too."""
    nested = getattr(command, "commands", None)
    if nested is not None:
        return {name: _commands(each) for name, each in sorted(nested.items())}
    flags = ("/".join([*each.opts, *each.secondary_opts]) for each in command.params)
    return sorted(flag for flag in flags if flag.startswith("-"))


def test_names_that_users_rely_on_are_unchanged():
    assert json.loads(json.dumps(read_contracts())) == json.loads(CONTRACTS.read_text("utf-8"))


if __name__ == "__main__":
    CONTRACTS.write_text(json.dumps(read_contracts(), indent=1) + "\n", "utf-8")
