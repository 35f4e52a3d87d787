"""From a YAML file to a job: read, substitute, validate; and show it again without its secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from streaming.pipeline.config import Job
from streaming.pipeline.strict import complaints
from streaming.pipeline.yaml_text import ConfigError, fill_in, parse_yaml, with_sets
from streaming.redaction import HIDDEN, Redactor, is_secret_key

if TYPE_CHECKING:
    from collections.abc import Sequence

_SERVERS = "kafka.bootstrap.servers"
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job with what is known about its file."""

    job: Job
    #: The file as messages name it, such as `job.yaml`; "config" for a dict.
    title: str
    #: Where files that the job names are looked for.
    folder: Path
    redact: Redactor
    #: The texts as written, where something was filled in.
    written: Mapping[tuple[str, ...], str]

    def error(self, place: str, what: str) -> ConfigError:
        """Make an error that says where in the config and what; nothing secret in it."""
        return ConfigError(self.redact(f"{self.title}: {place}: {what}"))

    def shown(self) -> str:
        """Give the effective config as YAML, defaults included, secrets hidden."""
        data = self.job.model_dump(mode="json", by_alias=True, exclude_none=True)
        return str(
            yaml.safe_dump(
                self._hide(data, ()), sort_keys=False, allow_unicode=True, default_flow_style=False
            )
        )

    def _hide(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            below = {key: self._hide(v, (*path, key)) for key, v in value.items()}
            return {key: v for key, v in below.items() if v not in ({}, [])}
        if isinstance(value, list):
            return [self._hide(v, (*path, str(i))) for i, v in enumerate(value)]
        written = self.written.get(path)
        if any(is_secret_key(key) for key in path):
            whole = written is not None and written.startswith("${") and written.count("$") == 1
            return written if whole and written and ":-" not in written else HIDDEN
        return self.redact(written or value) if isinstance(value, str) else value


def load_job(
    config: str | Path | Mapping[str, Any] | Job,
    *,
    sets: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    broker: str | None = None,
) -> LoadedJob:
    """Read and validate a job.

    Parameters
    ----------
    config
        Path of a YAML file, a mapping of the same shape, or a `Job`.
    sets
        `key.path=value`, applied over the config.
    environment
        Variables for `${NAME}`; by default those of the process.
    broker
        Address that takes the place of every `kafka.bootstrap.servers`.

    Raises
    ------
    ConfigError
        In one line: the file, the place in it, what is wrong, what would be right.
    """
    redact = Redactor()
    written: dict[tuple[str, ...], str] = {}
    if isinstance(config, Job):
        redact.learn_secrets(config.model_dump(mode="json", by_alias=True))
        return LoadedJob(config, config.name, Path(), redact, written)
    title, folder, data = _read(config)
    try:
        data = with_sets(data, sets)
        if broker is not None:
            data = {**_without_servers(data), _SERVERS: broker}
        variables = os.environ if environment is None else environment
        data = fill_in(data, variables, redact, written=written)
        redact.learn_secrets(data)
        if not isinstance(config, Mapping):
            data = {"name": _name_from(Path(config)), **data}
        job = Job.model_validate(data)
    except ValidationError as error:
        raise ConfigError(redact(f"{title}: {complaints(error, data)}")) from None
    except ConfigError as error:
        raise ConfigError(redact(f"{title}: {error}")) from None
    return LoadedJob(job, title, folder, redact, written)


def _read(config: str | Path | Mapping[str, Any]) -> tuple[str, Path, dict[str, Any]]:
    if isinstance(config, Mapping):
        return "config", Path(), dict(config)
    path = Path(config)
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
        raise ConfigError(f"{str(path)!r} cannot be read: {why}") from None
    if len(raw) > _MOST_BYTES:
        raise ConfigError(f"{str(path)!r} cannot be read: it has more than {_MOST_BYTES:,} bytes")
    try:
        return path.name, path.resolve().parent, parse_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None


def _name_from(path: Path) -> str:
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in path.stem)
    return name.lstrip("_.-") or "job"


def _without_servers(data: Any) -> Any:
    if isinstance(data, dict):
        return {k: _without_servers(v) for k, v in data.items() if k != _SERVERS}
    return data
