"""From the YAML of a job to plain data: keys once only, `--set` applied, `${ENV}` filled in.

Nothing is validated here; `config` does that. Every value that came from the environment is told
to the redactor, and where it stood is kept, so that it can be shown as it was written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from checkpoints.redaction import Redactor

#: Keys with dots in them begin like this; all other dots of `--set` lead one level down.
DOTTED_KEYS = ("kafka.", "assignor.", "spark.", "kafkaConsumer.", "fetchOffset.")

_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")


class ConfigError(OptionError):
    """A job's config that the user must change."""


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, but a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConfigError(
                    f"line {key_node.start_mark.line + 1}: the key {key_node.value!r} is not text: "
                    "put it in quotes"
                )
            if key in seen and key != "<<":
                raise ConfigError(f"line {key_node.start_mark.line + 1}: the key {key!r} is twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str) -> dict[str, Any]:
    """Parse one YAML document that must be a mapping."""
    try:
        data = yaml.load(text, Loader=_Loader)  # noqa: S506  (a subclass of the safe loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        said = getattr(error, "problem", None) or "cannot be parsed"
        raise ConfigError(f"{where}not valid YAML: {said}") from None
    if not isinstance(data, dict):
        raise ConfigError("a mapping with the keys of a job is expected; see `assignor init`")
    return data


def apply_sets(data: dict[str, Any], sets: Iterable[str]) -> None:
    """Put `--set key.path=value` into the data; the value is read as YAML."""
    for assignment in sets:
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise ConfigError(f"--set {path!r}: key.path=value is expected")
        try:
            value = yaml.load(text, Loader=_Loader) if text else ""  # noqa: S506
        except yaml.YAMLError:
            value = text
        _put(data, path.strip(), value)


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    here, rest = data, path
    while not rest.startswith(DOTTED_KEYS) and "." in rest:
        key, _, rest = rest.partition(".")
        below = here.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(f"--set {path!r}: {key!r} is a value, it has no keys below it")
        here = below
    here[rest] = value


def fill_in(
    data: Any,
    environment: Mapping[str, str],
    redact: Redactor,
    path: tuple[str, ...] = (),
    written: dict[tuple[str, ...], str] | None = None,
) -> Any:
    """Replace `${NAME}` and `${NAME:-default}` in all texts; `$${` stands for a plain `${`.

    Parameters
    ----------
    data
        What YAML gave.
    environment
        The variables.
    redact
        Is told each value that came from the environment.
    path
        Where the data stands in the job.
    written
        Gets the original text for each path in which something was replaced.

    Raises
    ------
    ConfigError
        For a variable that is not set and has no default.
    """
    if isinstance(data, dict):
        return {
            key: fill_in(value, environment, redact, (*path, key), written)
            for key, value in data.items()
        }
    if isinstance(data, list):
        return [
            fill_in(value, environment, redact, (*path, str(index)), written)
            for index, value in enumerate(data)
        ]
    if not isinstance(data, str) or "${" not in data:
        return data

    def value_of(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name, default = match[1], match[2]
        where = ".".join(path)
        if name is None:
            raise ConfigError(
                f"{where}: '${{' begins no ${{NAME}}: write '$${{' for the plain text"
            )
        if name in environment:
            redact.learn_variable(name, environment[name])
            return environment[name]
        if default is None:
            raise ConfigError(
                f"{where}: the environment variable {name!r} is not set: set it, or write "
                f"${{{name}:-default}}"
            )
        return default

    filled = _VARIABLE.sub(value_of, data)
    if written is not None:
        written[path] = data
    return filled
