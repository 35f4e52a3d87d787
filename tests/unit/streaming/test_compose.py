"""Check docker-compose.yml against the Compose schema and the code; no container is started."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.main import get_command

from streaming.cli.all import app
from tests.support.standalone_cluster import MASTER, WORKER, worker_arguments

ROOT = Path(__file__).parents[3]

#: A name and an exact version; only the image built here has no version.
_IMAGE = r"^([a-z0-9./-]+:\d+\.\d+\.\d+|assignor-bridge/spark:local)$"
_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
#: The part of the Compose specification that the file uses; any other key is a mistake.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name", "services"],
    "additionalProperties": False,
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "volumes": {"type": "object", "additionalProperties": {"type": "object", "enum": [{}]}},
        "services": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["image"],
                "additionalProperties": False,
                "properties": {
                    "image": {"type": "string", "pattern": _IMAGE},
                    "build": {
                        "type": "object",
                        "required": ["context", "dockerfile"],
                        "additionalProperties": False,
                        "properties": {
                            "context": {"type": "string"}, "dockerfile": {"type": "string"},
                        },
                    },
                    "command": _TEXTS,
                    "environment": {"type": "object", "additionalProperties": {"type": "string"}},
                    "ports": {
                        "type": "array",
                        "items": {"type": "string", "pattern": r"^127\.0\.0\.1:\d+:\d+$"},
                    },
                    "volumes": {
                        "type": "array",
                        "items": {"type": "string", "pattern": r"^[a-z]+:/[a-z/]+$"},
                    },
                    "healthcheck": {
                        "type": "object",
                        "required": ["test"],
                        "additionalProperties": False,
                        "properties": {
                            "test": _TEXTS,
                            "interval": {"type": "string", "pattern": r"^\d+s$"},
                            "timeout": {"type": "string", "pattern": r"^\d+s$"},
                            "retries": {"type": "integer", "minimum": 1},
                        },
                    },
                    "depends_on": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "required": ["condition"],
                            "additionalProperties": False,
                            "properties": {
                                "condition": {"enum": ["service_started", "service_healthy"]}
                            },
                        },
                    },
                },
            },
        },
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return loaded


def test_the_file_matches_the_compose_schema(compose):
    jsonschema.Draft202012Validator(SCHEMA).validate(compose)


@pytest.mark.parametrize("image", ["apache/kafka", "apache/kafka:latest"])
def test_an_image_without_a_version_is_rejected(compose, image):
    services = {**compose["services"], "kafka": {"image": image}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate({**compose, "services": services})


def test_the_services_are_kafka_a_master_three_workers_and_the_demo(compose):
    services = compose["services"]
    names = ["spark-worker-1", "spark-worker-2", "spark-worker-3"]
    assert sorted(services) == ["demo", "kafka", "spark-master", *names]
    assert services["kafka"]["environment"]["KAFKA_PROCESS_ROLES"] == "broker,controller"
    master = "spark://spark-master:7077"
    for name in (*names, "demo"):
        assert master in services[name]["command"]
    for name in names:  # the same command as without containers
        expected = ["spark-class", WORKER, *worker_arguments(2, "/tmp/work", master)]  # noqa: S108
        assert services[name]["command"] == expected
    assert services["spark-master"]["command"][:2] == ["spark-class", MASTER]


def test_services_refer_to_existing_files_and_options(compose):
    services = compose["services"]
    for service in services.values():
        for other, dependency in service.get("depends_on", {}).items():
            assert dependency["condition"] != "service_healthy" or "healthcheck" in services[other]
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in compose["volumes"]
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()
    _, command, *arguments = services["demo"]["command"]
    options = {o for p in get_command(app).commands[command].params for o in p.opts}
    assert {a for a in arguments if a.startswith("--")} <= options


def test_the_image_pins_its_base_and_copies_existing_files():
    dockerfile = (ROOT / "compose" / "Dockerfile").read_text("utf-8")
    assert re.search(r"^FROM \S+:\d+\.\d+\.\d+-\S+$", dockerfile, re.MULTILINE)
    for sources in re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE):
        assert [name for name in sources.split() if not (ROOT / name).exists()] == []
