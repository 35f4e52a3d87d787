"""From a YAML file to a job: read, substitute, validate; and show it again without its secrets."""

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
from streaming.pipeline.config.base import SERVERS
from streaming.pipeline.config.job import Job
from streaming.pipeline.config.yaml_text import fill_in, mapped, parse_yaml, with_sets
from streaming.pipeline.errors import ConfigError, JobError, first_line
from streaming.redaction import HIDDEN, Redactor, is_secret_key
from streaming.validation import describe_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_BYTES = 1_000_000

#: A value that is a variable and nothing else, so that showing it shows no value.
_ONE_VARIABLE = re.compile(r"\$\{\w+\}")


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job with what is known about its file; its `repr` shows no value."""

    job: Job
    #: The file as messages name it, such as `job.yaml`; "config" for a dict.
    title: str
    #: Where files that the job names are looked for.
    folder: Path = field(repr=False)
    redact: Redactor = field(repr=False)
    #: The texts as written, where something was filled in.
    written: Mapping[tuple[str, ...], str] = field(repr=False)

    @contextlib.contextmanager
    def at(
        self, place: str, kind: type[AssignorError] = ConfigError, what: str = ""
    ) -> Iterator[None]:
        """Turn what fails within into one line: the file, the place, what, the innermost cause."""
        try:
            yield
        except (ConfigError, JobError):  # these say all that already
            raise
        except Exception as error:
            why = (what and getattr(error, "strerror", None)) or first_line(error)
            raise self.error(place, what + why, kind) from error

    @contextlib.contextmanager
    def causes_without_secrets(self) -> Iterator[None]:
        """Unchain the causes of an error of ours if the text of one of them has a secret."""
        try:
            yield
        except AssignorError as error:
            each = error.__cause__
            while each is not None:
                if self.redact(str(each)) != str(each):
                    error.__cause__ = error.__context__ = None
                    break
                each = each.__cause__ or each.__context__
            raise

    def error(
        self, place: str, what: str, kind: type[AssignorError] = ConfigError
    ) -> AssignorError:
        """Make an error that says where in the config and what; nothing secret in it."""
        return kind(self.redact(f"{self.title}: {place}: {what}"))

    def at_broker(self, address: str) -> LoadedJob:
        """Return the job with this address for every `kafka.bootstrap.servers`."""
        data = self.job.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return replace(self, job=Job.model_validate(_at_broker(data, address)))

    def shown(self) -> str:
        """Return the effective config as YAML, defaults included, secrets hidden."""
        data = self.job.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, source in self.job.all_sources.items():  # with our default startingOffsets
            (data["source"] if self.job.source else data["sources"][name]).update(
                {key: v for key, v in source.spark_options.items() if key not in source.options}
            )
        hidden = _without_empty(mapped(data, self._hide))
        return str(
            yaml.safe_dump(hidden, sort_keys=False, allow_unicode=True, default_flow_style=False)
        )

    def _hide(self, path: tuple[str, ...], value: Any) -> Any:
        written = self.written.get(path)
        if any(is_secret_key(key) for key in path):
            return written if written and _ONE_VARIABLE.fullmatch(written) else HIDDEN
        return self.redact(written or value) if isinstance(value, str) else value


def load_job(
    config: str | Path | Mapping[str, Any] | Job,
    *,
    sets: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    broker: str | None = None,
) -> LoadedJob:
    """Read and validate a job: a YAML file, a mapping of the same shape, or a `Job`.

    Parameters
    ----------
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
    if isinstance(config, Job):
        redact.learn_secrets(config.model_dump(mode="json", by_alias=True))
        return LoadedJob(config, config.name, Path(), redact, {})
    title, folder, data = _read(config)
    try:
        data = with_sets(data, sets)
        if broker is not None:
            data = _at_broker(data, broker)
        variables = os.environ if environment is None else environment
        data, written = fill_in(data, variables, redact)
        redact.learn_secrets(data)
        if not isinstance(config, Mapping):
            data = {"name": _name_from(Path(config)), **data}
        job = Job.model_validate(data)
    except (ValidationError, ConfigError) as error:
        words = describe_problems(error, data) if isinstance(error, ValidationError) else str(error)
        raise ConfigError(redact(f"{title}: {words}")) from None
    return LoadedJob(job, title, folder, redact, written)


def _read(config: str | Path | Mapping[str, Any]) -> tuple[str, Path, dict[str, Any]]:
    if isinstance(config, Mapping):
        return "config", Path(), dict(config)
    try:
        path = Path(config)
    except TypeError:
        kind = type(config).__name__
        raise ConfigError(f"a YAML file, a mapping or a Job is expected, not {kind}") from None
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")  # noqa: TRY301
        text = raw.decode("utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or first_line(error)
        raise ConfigError(f"{str(path)!r} cannot be read: {why}") from None
    try:
        return path.name, path.resolve().parent, parse_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None


def _name_from(path: Path) -> str:
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in path.stem)
    return name.lstrip("_.-") or "job"


def _at_broker(data: dict[str, Any], address: str) -> dict[str, Any]:
    def without(section: Any) -> Any:
        if isinstance(section, dict):
            return {key: without(value) for key, value in section.items() if key != SERVERS}
        return section

    return {**without(data), SERVERS: address}


def _without_empty(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    kept = {key: _without_empty(value) for key, value in data.items()}
    return {key: value for key, value in kept.items() if value not in ({}, [])}
