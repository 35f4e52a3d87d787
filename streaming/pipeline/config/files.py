"""The files that a job names, looked for next to its YAML: schemas, functions in Python, seeds."""

from __future__ import annotations

import base64
import binascii
import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import Field, ValidationError, model_validator

from assignor_bridge.errors import describe_error
from streaming.pipeline.config.base import Section
from streaming.pipeline.config.loading import LoadedJob, load_job
from streaming.validation import describe_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from pyspark.sql import DataFrame
    from typing_extensions import Self

    from streaming.pipeline.config.job import Job

_ENDINGS = (".ddl", ".json", ".avsc", ".txt")
#: A field that every Avro record gets when it is read; it is null when reading failed.
AVRO_MARKER = "__read"
#: A record's key and value.
Record = tuple[bytes | None, bytes | None]
#: Where functions were imported from.
_JOB_FOLDERS: set[Path] = set()


def load_checked_job(
    config: str | Path | Mapping[str, Any] | Job | LoadedJob,
    *,
    sets: Sequence[str] = (),
    broker: str | None = None,
) -> LoadedJob:
    """Load a job and check the files that it names; a loaded job was checked before.

    `load_job` describes the parameters and the errors.
    """
    if isinstance(config, LoadedJob):
        return config
    loaded = load_job(config, sets=sets, broker=broker)
    check_files(loaded)
    return loaded


def check_files(loaded: LoadedJob) -> None:
    """Check schema files and Python functions, before Spark or a broker is needed."""
    job = loaded.job
    for name, source in job.all_sources.items():
        text = schema_text(loaded, name)
        with loaded.at(job.place("source", name, "records.schema")):
            if source.records.schema_ is None:
                continue
            if source.records.format == "avro":
                marked_avro(text)
            elif text.lstrip().startswith("{"):
                schema_json(text)
            elif not text.strip():
                raise ValueError("the schema is empty: DDL such as 'id BIGINT' is expected")
    for name, transform in job.all_transforms.items():
        if transform.python is not None:
            python_function(loaded, name)


def schema_text(loaded: LoadedJob, source: str) -> str:
    """Read a source's schema from its file, or return the text itself, which is DDL."""
    schema = loaded.job.all_sources[source].records.schema_ or ""
    if not schema.strip().endswith(_ENDINGS) or "\n" in schema:
        return schema
    path = loaded.folder / schema
    place = loaded.job.place("source", source, "records.schema")
    with loaded.at(place, what=f"the schema file {str(path)!r} cannot be read: "):
        return path.read_text(encoding="utf-8")


def schema_json(text: str) -> Any:
    """Parse a schema of Spark's or Avro's."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"the schema is not JSON: {error}") from None


def marked_avro(text: str) -> str:
    """Add the marker to an Avro schema: as a reader's field with a default, it costs no byte."""
    schema = schema_json(text)
    if not isinstance(schema, dict) or schema.get("type") != "record" or "fields" not in schema:
        raise ValueError("the Avro schema is not a record with fields")
    marker = {"name": AVRO_MARKER, "type": "boolean", "default": True}
    return json.dumps({**schema, "fields": [*schema["fields"], marker]})


def python_function(loaded: LoadedJob, transform: str) -> Callable[[DataFrame], DataFrame]:
    """Import a transform's `package.module:function`; the job's own folder is looked in, too."""
    name = loaded.job.all_transforms[transform].python or ""
    place = loaded.job.place("transform", transform, "python")
    module_name, _, attribute = name.partition(":")
    try:
        _look_first_in(loaded.folder.resolve())
        function = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # whatever the user's module does
        raise loaded.error(
            place, f"{name!r} cannot be imported: {describe_error(error)}"
        ) from error
    if not callable(function):
        raise loaded.error(place, f"{name!r} is not a function")
    checked: Callable[[DataFrame], DataFrame] = function
    return checked


def _look_first_in(folder: Path) -> None:
    """Let imports begin in a job's folder; what another job's had under a name of its is gone."""
    here = {path.stem if path.suffix == ".py" else path.name for path in folder.iterdir()}
    others = _JOB_FOLDERS - {folder}
    for name, module in list(sys.modules.items()) if others else ():
        if name in here and _home(module) in others:
            for each in [each for each in sys.modules if each.partition(".")[0] == name]:
                del sys.modules[each]
    _JOB_FOLDERS.add(folder)
    with contextlib.suppress(ValueError):
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def _home(module: ModuleType) -> Path | None:
    """Return the folder that a module, or a package with or without `__init__.py`, is in."""
    package = list(getattr(module, "__path__", ()))
    place = package[0] if package else getattr(module, "__file__", None)
    return Path(place).parent if isinstance(place, str) else None


class _Line(Section):
    """A line of a seed file."""

    key: str | None = None
    value: Any = None
    bytes_: str | None = Field(None, alias="base64")

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        if self.value is not None and self.bytes_ is not None:
            raise ValueError("'value' and 'base64' cannot be used together")
        return self

    def record(self) -> Record:
        """Return key and value as they are sent."""
        key = self.key.encode() if self.key is not None else None
        if self.bytes_ is not None:
            try:
                return key, base64.b64decode(self.bytes_, validate=True)
            except binascii.Error as error:
                raise ValueError(f"'base64' cannot be read: {error}") from None
        if self.value is None:
            return key, None
        return key, self.value.encode() if isinstance(self.value, str) else orjson.dumps(self.value)


def read_seeds(loaded: LoadedJob) -> dict[str, list[Record]]:
    """Read the records of each topic that the job seeds."""
    seeds = {}
    for topic, seed in loaded.job.seed.items():
        path = loaded.folder / seed.file
        with loaded.at(f"seed.{topic}.file", what=f"{str(path)!r} cannot be read: "):
            lines = path.read_bytes().splitlines()
            seeds[topic] = [_record(n, line) for n, line in enumerate(lines, 1) if line.strip()]
    return seeds


def _record(number: int, line: bytes) -> Record:
    data: Any = None
    try:
        data = orjson.loads(line)
        return _Line.model_validate(data).record()
    except ValueError as error:
        why = describe_problems(error, data) if isinstance(error, ValidationError) else error
        raise ValueError(f"line {number}: {why}") from None
