"""Objects of the API show no secrets: in `repr`, `str` or pickles, nor in their errors."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

import assignor_bridge
import streaming
from assignor_bridge.errors import AssignorError
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.job_errors import ConfigError, JobError
from streaming.pipeline.job_run import RunningJob
from streaming.pipeline.queries import JobQuery
from streaming.pipeline.row_counts import QueryResult
from tests.unit.streaming.test_pipeline_config import GOOD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.pipeline.config.loading import LoadedJob

SECRET = "topsecret99"  # noqa: S105
#: Secrets by key, by variable, and by shape, in each kind of section.
SECRETS = {
    "kafka.sasl.jaas.config": f'Login required password="{SECRET}";',
    "kafka.client.id": "${PLAIN}",
    "kafka.ssl.key.password": "${PLAIN}" + SECRET,
    "kafka.bootstrap.servers": "b:9092",
    "sources": {
        "a": {
            **GOOD["source"], "assignor.weight.orders": "1",
            "maxOffsetsPerTrigger": 9,
            "records": {
                "format": "csv", "schema": "id INT", "options": {"password": SECRET},
                "bad_records": "dead_letter", "dead_letter": {"path": f"s3a://k:{SECRET}@b/bad"},
            },
            "watermark": {"column": "${PLAIN}"},
        },
    },
    "transforms": {"t": {"sql": "SELECT '${PLAIN}' AS x"}},
    "sinks": {
        "table": {"path": f"s3a://key:{SECRET}@bucket/t", "delete_when": "x = '${PLAIN}'"},
        "topic": {"type": "kafka", "topic": "t2", "kafka.ssl.key.password": SECRET},
        "console": {"type": "console"},
    },
    "checkpoint": "/${PLAIN}/c",
    "metrics": {"textfile": "/${PLAIN}/m.prom"},
    "spark": {"spark.hadoop.fs.s3a.secret.key": SECRET},
    "seed": {"orders": {"file": "${PLAIN}.jsonl"}},
}  # fmt: skip


@pytest.fixture
def loaded() -> LoadedJob:
    config: Any = copy.deepcopy(SECRETS)
    config["sinks"]["table"] |= {"mode": "upsert", "keys": ["id"]}
    return load_job(config, environment={"PLAIN": SECRET})


def walk_objects(value: Any) -> Iterator[Any]:
    """Yield a value and all product objects that its attributes refer to."""
    yield value
    if isinstance(value, BaseModel):
        parts = [getattr(value, name) for name in type(value).model_fields]
    elif isinstance(value, (tuple, list)):
        parts = list(value)
    elif isinstance(value, dict):
        parts = list(value.values())
    elif type(value).__module__.startswith("streaming."):
        slots = getattr(type(value), "__slots__", ())
        parts = [*vars(value).values()] if hasattr(value, "__dict__") else []
        parts += [getattr(value, name) for name in slots]
    else:
        return
    for part in parts:
        if isinstance(part, (dict, list, tuple)) or type(part).__module__.startswith("streaming."):
            yield from walk_objects(part)


def test_no_object_shows_a_secret(loaded):
    result = QueryResult("q", loaded.redact(loaded.job.checkpoint))
    writer: Any = threading.Lock()  # cannot be pickled, like Spark's writer
    query = JobQuery("q", "sink", writer, writer, loaded.job.checkpoint, None, [], result)
    running = RunningJob(loaded, [query])
    objects = [
        each for each in (*walk_objects(loaded), *walk_objects(running), query, running.result)
        if type(each).__module__.startswith("streaming.")
    ]  # fmt: skip
    names = {type(each).__name__ for each in objects}
    assert {"LoadedJob", "Job", "Source", "Records", "DeltaSink", "KafkaSink", "DeadLetter",
            "Transform", "Metrics", "Seed", "RunningJob", "JobResult"} <= names  # fmt: skip
    for each in objects:
        if type(each).__name__ == "PosixPath":
            continue
        assert SECRET not in f"{each!r}{each}{each:}", type(each)
        try:
            text = pickle.dumps(each)
        except (TypeError, AttributeError, pickle.PicklingError):
            continue
        assert SECRET.encode() not in text, type(each)
    assert repr(loaded.job.sinks["table"]) == "DeltaSink('delete_when', 'keys', 'mode', 'path')"
    for refused in (loaded, loaded.job, loaded.job.sinks["topic"]):
        with pytest.raises(TypeError, match="secrets"):
            pickle.dumps(refused)


def test_no_error_or_cause_shows_a_secret(loaded):
    """Loggers also print the causes of an error, whose texts may not be redacted."""
    for config in (
        {**SECRETS, "name": f"a b{SECRET}"},
        {**SECRETS, "spark": {"x": SECRET}},
    ):
        with pytest.raises(ConfigError) as raised:
            load_job(config, environment={"PLAIN": SECRET})
        assert SECRET not in f"{raised.value!r}{raised.value.__cause__!r}"
        assert raised.value.__suppress_context__
    for words, is_kept in ((f"no access for {SECRET}", False), ("no access", True)):
        with (
            pytest.raises(JobError) as failed, loaded.drop_secret_causes(),
            loaded.wrap_errors("sink", JobError),
        ):  # fmt: skip
            raise_with_hidden_cause(words)
        cause = failed.value.__cause__
        assert (cause is not None) == is_kept
        assert SECRET not in f"{failed.value!r}{cause!r}{failed.value.__context__!r}"


def raise_with_hidden_cause(words: str) -> None:
    try:
        Path(f"/proc/{words}").read_text()
    except OSError as error:
        raise RuntimeError("it failed") from error


def test_every_error_can_be_created_from_its_message():
    """Regression: `assignor run` failed to recreate an error with the log's name."""
    for package in (assignor_bridge, streaming):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(("assignor_bridge.testing", "streaming.cli.all")):
                importlib.import_module(module.name)
    kinds, ahead = set(), [AssignorError]
    while ahead:
        kinds.add(kind := ahead.pop())
        ahead += kind.__subclasses__()
    assert len(kinds) > 20
    for kind in kinds:
        error = kind("words")
        error.args = ("words (Spark's log: f)",)
        copied = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert str(copied) == "words (Spark's log: f)"
        assert copied.exit_code in (1, 2)


def test_public_names_are_completed_and_importable():
    assert set(dir(streaming)) >= {"run_job", "JobError", "ConfigError", "RunningJob", "JobResult"}
    for name in streaming.__all__:
        assert getattr(streaming, name).__name__
