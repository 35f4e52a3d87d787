"""Load a job from YAML (read, substitute, validate), and print it without its secrets."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from assignor_bridge.errors import AssignorError
from streaming.pipeline.config import yaml_text
from streaming.pipeline.config.base import SERVERS
from streaming.pipeline.config.job import Job
from streaming.pipeline.job_errors import ConfigError, JobError, summarize
from streaming.redaction import HIDDEN, Redactor, is_secret_key
from streaming.validation import describe_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MAX_BYTES = 1_000_000
#: Text that is a single variable reference, which reveals nothing.
_ONE_VARIABLE = re.compile(r"\$\{\w+\}")


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job and the details of its file; its `repr` shows no values."""

    job: Job
    #: File name, such as `job.yaml`, for messages; "config" for a mapping, the name of a `Job`.
    title: str
    #: Folder of the files that the job refers to.
    folder: Path = field(repr=False)
    redact: Redactor = field(repr=False)
    #: Original texts of values with substituted variables, by path.
    original_texts: Mapping[tuple[str, ...], str] = field(repr=False)

    @contextlib.contextmanager
    def wrap_errors(
        self, key_path: str, error_type: type[AssignorError] = ConfigError, prefix: str = ""
    ) -> Iterator[None]:
        """Convert an exception to a one-line error: file, key path, prefix, and innermost cause."""
        try:
            yield
        except (ConfigError, JobError):  # these are complete already
            raise
        except Exception as error:
            reason = (prefix and getattr(error, "strerror", None)) or summarize(error)
            raise self.make_error(key_path, prefix + reason, error_type) from error

    @contextlib.contextmanager
    def drop_secret_causes(self) -> Iterator[None]:
        """Remove the causes of an AssignorError if the text of any cause contains a secret."""
        try:
            yield
        except AssignorError as error:
            cause = error.__cause__
            while cause is not None:
                if self.redact(str(cause)) != str(cause):
                    error.__cause__ = error.__context__ = None
                    break
                cause = cause.__cause__ or cause.__context__
            raise

    def make_error(
        self, key_path: str, problem: str, error_type: type[AssignorError] = ConfigError
    ) -> AssignorError:
        """Return an error with file, key path, and problem, with secrets hidden."""
        return error_type(self.redact(f"{self.title}: {key_path}: {problem}"))

    def replace_brokers(self, address: str) -> LoadedJob:
        """Return a copy of the job that uses this address for every `kafka.bootstrap.servers`."""
        data = self.job.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return replace(self, job=Job.model_validate(_replace_brokers(data, address)))

    def to_yaml(self) -> str:
        """Return the effective config as YAML, with defaults included and secrets hidden."""
        data = self.job.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, source in self.job.all_sources.items():  # add the default startingOffsets
            (data["source"] if self.job.source else data["sources"][name]).update(
                {key: v for key, v in source.spark_options.items() if key not in source.options}
            )
        output = _drop_empty(yaml_text.map_values(data, self._hide_value))
        return str(
            yaml.safe_dump(output, sort_keys=False, allow_unicode=True, default_flow_style=False)
        )

    def _hide_value(self, path: tuple[str, ...], value: Any) -> Any:
        text = self.original_texts.get(path)
        if any(is_secret_key(key) for key in path):
            return text if text and _ONE_VARIABLE.fullmatch(text) else HIDDEN
        return self.redact(text or value) if isinstance(value, str) else value


def load_job(
    config: str | Path | Mapping[str, Any] | Job,
    *,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    broker: str | None = None,
) -> LoadedJob:
    """Read and validate a job: a YAML file, a mapping with the same keys, or a `Job`.

    `overrides` are assignments `key.path=value`, as in `--set`. `environment` has the variables for
    `${NAME}`; by default, those of the process. `broker` is an address that replaces every
    `kafka.bootstrap.servers`. None of the three changes a `Job`.

    Raises ConfigError if the config is invalid or cannot be read.
    """
    redact = Redactor()
    if isinstance(config, Job):
        redact.learn_secrets(config.model_dump(mode="json", by_alias=True))
        return LoadedJob(config, config.name, Path(), redact, {})
    title, folder, data = _read_config(config)
    try:
        data = yaml_text.apply_overrides(data, overrides)
        if broker is not None:
            data = _replace_brokers(data, broker)
        variables = os.environ if environment is None else environment
        data, original_texts = yaml_text.fill_variables(data, variables, redact)
        redact.learn_secrets(data)
        if not isinstance(config, Mapping):
            data = {"name": _derive_name(Path(config)), **data}
        job = Job.model_validate(data)
    except (ValidationError, ConfigError) as error:
        text = describe_problems(error, data) if isinstance(error, ValidationError) else str(error)
        raise ConfigError(redact(f"{title}: {text}")) from None
    return LoadedJob(job, title, folder, redact, original_texts)


def _read_config(config: str | Path | Mapping[str, Any]) -> tuple[str, Path, dict[str, Any]]:
    if isinstance(config, Mapping):
        return "config", Path(), dict(config)
    try:
        path = Path(config)
    except TypeError:
        problem = f"a YAML file, a mapping or a Job is expected, not {type(config).__name__}"
        raise ConfigError(f"config: {problem}") from None
    try:
        text = _read_text(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or summarize(error)
        raise ConfigError(f"{str(path)!r} cannot be read: {reason}") from None
    try:
        return path.name, path.resolve().parent, yaml_text.parse_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        raw = file.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES:,} bytes")
    return raw.decode("utf-8")


def _derive_name(path: Path) -> str:
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in path.stem)
    return name.lstrip("_.-") or "job"


def _replace_brokers(data: dict[str, Any], address: str) -> dict[str, Any]:
    def drop_servers(section: Any) -> Any:
        if isinstance(section, dict):
            return {key: drop_servers(value) for key, value in section.items() if key != SERVERS}
        return section

    return {**drop_servers(data), SERVERS: address}


def _drop_empty(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    value_by_key = {key: _drop_empty(value) for key, value in data.items()}
    return {key: value for key, value in value_by_key.items() if value not in ({}, [])}
