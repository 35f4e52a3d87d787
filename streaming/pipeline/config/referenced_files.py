"""Read the schema, Python, and seed files to which a job's YAML refers."""

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

_SCHEMA_SUFFIXES = (".ddl", ".json", ".avsc", ".txt")
#: Field that is added to each Avro record on reading; it is null if reading failed.
AVRO_MARKER = "__read"
#: A record's key and value.
Record = tuple[bytes | None, bytes | None]
#: Folders of jobs whose Python functions this process has imported.
_JOB_FOLDERS: set[Path] = set()


def load_checked_job(
    config: str | Path | Mapping[str, Any] | Job | LoadedJob,
    *,
    overrides: Sequence[str] = (),
    broker: str | None = None,
) -> LoadedJob:
    """Load a job and check the files that it refers to; a `LoadedJob` is returned unchanged.

    See `load_job` for the parameters and errors.
    """
    if isinstance(config, LoadedJob):
        return config
    loaded_job = load_job(config, overrides=overrides, broker=broker)
    check_files(loaded_job)
    return loaded_job


def check_files(loaded_job: LoadedJob) -> None:
    """Raise ConfigError for an invalid schema or Python function; Spark parses DDL later."""
    job = loaded_job.job
    for name, source in job.all_sources.items():
        schema_text = read_schema(loaded_job, name)
        with loaded_job.wrap_errors(job.locate("source", name, "records.schema")):
            if source.records.schema_ is None:
                continue
            if source.records.format == "avro":
                add_avro_marker(schema_text)
            elif schema_text.lstrip().startswith("{"):
                parse_schema_json(schema_text)
            elif not schema_text.strip():
                raise ValueError("the schema is empty: DDL such as 'id BIGINT' is expected")
    for name, transform in job.all_transforms.items():
        if transform.python is not None:
            import_function(loaded_job, name)


def read_schema(loaded_job: LoadedJob, source_name: str) -> str:
    """Return a source's schema, "" if it has none; raise ConfigError if its file cannot be read."""
    schema = loaded_job.job.all_sources[source_name].records.schema_ or ""
    if not schema.strip().endswith(_SCHEMA_SUFFIXES) or "\n" in schema:
        return schema
    path = loaded_job.folder / schema
    key_path = loaded_job.job.locate("source", source_name, "records.schema")
    with loaded_job.wrap_errors(key_path, prefix=f"the schema file {str(path)!r} cannot be read: "):
        return path.read_text(encoding="utf-8")


def parse_schema_json(text: str) -> Any:
    """Parse the JSON of a Spark or Avro schema; raise ValueError if the text is not JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"the schema is not JSON: {error}") from None


def add_avro_marker(text: str) -> str:
    """Return the Avro schema with the field `AVRO_MARKER`, which is true if a record can be read.

    Raises ValueError if the text is not JSON or not the schema of a record with fields.
    """
    schema = parse_schema_json(text)
    if not isinstance(schema, dict) or schema.get("type") != "record" or "fields" not in schema:
        raise ValueError("the Avro schema is not a record with fields")
    marker = {"name": AVRO_MARKER, "type": "boolean", "default": True}
    return json.dumps({**schema, "fields": [*schema["fields"], marker]})


def import_function(loaded_job: LoadedJob, transform_name: str) -> Callable[[DataFrame], DataFrame]:
    """Import a transform's function, from the job's folder first; raise ConfigError on failure."""
    name = loaded_job.job.all_transforms[transform_name].python or ""
    key_path = loaded_job.job.locate("transform", transform_name, "python")
    module_name, _, attribute = name.partition(":")
    try:
        _put_first_on_path(loaded_job.folder.resolve())
        function = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        problem = f"{name!r} cannot be imported: {describe_error(error)}"
        raise loaded_job.make_error(key_path, problem) from error
    if not callable(function):
        raise loaded_job.make_error(key_path, f"{name!r} is not a function")
    transform: Callable[[DataFrame], DataFrame] = function
    return transform


def _put_first_on_path(folder: Path) -> None:
    """Put a job's folder first on the import path; unload other jobs' modules with equal names."""
    module_names = {path.stem if path.suffix == ".py" else path.name for path in folder.iterdir()}
    other_folders = _JOB_FOLDERS - {folder}
    for name, module in list(sys.modules.items()) if other_folders else ():
        if name in module_names and _find_folder(module) in other_folders:
            for module_name in [x for x in sys.modules if x.partition(".")[0] == name]:
                del sys.modules[module_name]
    _JOB_FOLDERS.add(folder)
    with contextlib.suppress(ValueError):
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def _find_folder(module: ModuleType) -> Path | None:
    """Return the folder that contains a module or package; None if unknown."""
    package_paths = list(getattr(module, "__path__", ()))  # set even without `__init__.py`
    location = package_paths[0] if package_paths else getattr(module, "__file__", None)
    return Path(location).parent if isinstance(location, str) else None


class _SeedLine(Section):
    """A line of a seed file."""

    key: str | None = None
    value: Any = None
    base64_text: str | None = Field(None, alias="base64")

    @model_validator(mode="after")
    def _check_one_value(self) -> Self:
        if self.value is not None and self.base64_text is not None:
            raise ValueError("'value' and 'base64' cannot be used together")
        return self

    def to_record(self) -> Record:
        """Return the key and value as bytes; raise ValueError if `base64` cannot be decoded."""
        key = self.key.encode() if self.key is not None else None
        if self.base64_text is not None:
            try:
                return key, base64.b64decode(self.base64_text, validate=True)
            except binascii.Error as error:
                raise ValueError(f"'base64' cannot be decoded: {error}") from None
        if self.value is None:
            return key, None
        return key, self.value.encode() if isinstance(self.value, str) else orjson.dumps(self.value)


def read_seeds(loaded_job: LoadedJob) -> dict[str, list[Record]]:
    """Return the seed records by topic; raise ConfigError if a file or line cannot be read."""
    records_by_topic = {}
    for topic, seed in loaded_job.job.seed.items():
        path = loaded_job.folder / seed.file
        with loaded_job.wrap_errors(f"seed.{topic}.file", prefix=f"{str(path)!r} cannot be read: "):
            numbered_lines = enumerate(path.read_bytes().splitlines(), 1)
            records_by_topic[topic] = [_parse_line(n, x) for n, x in numbered_lines if x.strip()]
    return records_by_topic


def _parse_line(line_number: int, line: bytes) -> Record:
    data: Any = None
    try:
        data = orjson.loads(line)
        return _SeedLine.model_validate(data).to_record()
    except ValueError as error:
        problem = describe_problems(error, data) if isinstance(error, ValidationError) else error
        raise ValueError(f"line {line_number}: {problem}") from None
