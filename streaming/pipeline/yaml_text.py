"""From the YAML of a job to plain data: keys once only, `--set` applied, `${ENV}` filled in.

Nothing is validated here; `config` does that. Every value that came from the environment is told
to the redactor, and where it stood is kept, so that it can be shown as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.redaction import Redactor

#: Keys with dots in them begin like this; all other dots of `--set` lead one level down.
DOTTED_KEYS = ("kafka.", "assignor.", "spark.", "kafkaConsumer.", "fetchOffset.")

_SECTION = "spark."
#: `"a.b".rest` or `'a.b'`.
_QUOTED = re.compile(r"""(?:"([^"]+)"|'([^']+)')(?:\.(?=.)|$)""")
_SET = re.compile(r"""((?:"[^"]*"|'[^']*'|[^=])*)(=?)(.*)""", re.DOTALL)
#: A job has a few hundred values at most, nested a few levels.
_MOST_VALUES = 10_000
_DEEPEST = 50

_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")


class ConfigError(OptionError):
    """A job's config that the user must change."""


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, with bounds, for which a key that stands twice is an error.

    Each error is a `ConfigError` with its line; it shows no value, which may be a secret.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose what is nested, but not endlessly."""
        self._depth += 1
        if self._depth > _DEEPEST:
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise ConfigError(f"line {line}: nested deeper than {_DEEPEST} levels")
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        """Give the document, if it is no larger with its aliases written out than it may be."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _size(node, {})
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Make a value; one that does not fit its type is told with its line."""
        try:
            return super().construct_object(node, deep)
        except (ConfigError, yaml.YAMLError):
            raise
        except (ValueError, KeyError, TypeError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            raise ConfigError(
                f"line {node.start_mark.line + 1}: a value that looks like {kind!r} is none: put "
                "it in quotes if it is text"
            ) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Make a mapping whose keys are text, each there once."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                is_word = isinstance(key_node, yaml.ScalarNode)
                which = f"the key {key_node.value!r}" if is_word else "a key"
                raise ConfigError(
                    f"line {key_node.start_mark.line + 1}: {which} is not text: put it in quotes"
                )
            if key in seen and key != "<<":
                raise ConfigError(f"line {key_node.start_mark.line + 1}: the key {key!r} is twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _size(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """Count the values below a node as if each alias were written out."""
    known = sizes.get(id(node), 0)
    line = node.start_mark.line + 1
    if known is None:
        raise ConfigError(f"line {line}: an alias stands within what it names")
    if known:
        return known
    sizes[id(node)] = None
    below: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        below = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        below = node.value
    size = 1 + sum(_size(part, sizes) for part in below)
    if size > _MOST_VALUES:
        raise ConfigError(
            f"line {line}: more than {_MOST_VALUES:,} values, with what the aliases stand for"
        )
    sizes[id(node)] = size
    return size


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        return _copied(loader.get_single_data())
    finally:
        loader.dispose()


def _copied(data: Any) -> Any:
    """Copy, so that nothing stands in two places: a change of one would be one of the other."""
    if isinstance(data, Mapping):
        return {key: _copied(value) for key, value in data.items()}
    return [_copied(value) for value in data] if isinstance(data, list) else data


def parse_yaml(text: str) -> dict[str, Any]:
    """Parse one YAML document that must be a mapping."""
    try:
        data = _load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        said = getattr(error, "problem", None) or "cannot be parsed"
        raise ConfigError(f"{where}not valid YAML: {said}") from None
    if not isinstance(data, dict):
        raise ConfigError("a mapping with the keys of a job is expected; see `assignor init`")
    return data


def with_sets(data: Mapping[str, Any], sets: Iterable[str]) -> dict[str, Any]:
    """Give the data with `--set key.path=value` put in; the value is read as YAML.

    Where a key has dots in it, one that is there is taken; a new one is written in quotes.
    """
    changed: dict[str, Any] = _copied(data)
    for assignment in sets:
        path, equals, text = _SET.fullmatch(assignment).groups()  # type: ignore[union-attr]
        if not equals or not path.strip():
            raise ConfigError(f"--set {path!r}: key.path=value is expected")
        try:
            value = _load(text) if text else ""
        except yaml.YAMLError:
            value = text
        except ConfigError as error:
            raise ConfigError(f"--set {path}: {error}") from None
        _put(changed, path.strip(), value)
    return changed


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    here, rest = data, path
    if rest.startswith(_SECTION):  # each key of the section `spark` begins so itself
        here = _below(data, path, "spark")
        rest = rest.removeprefix(_SECTION) if rest.startswith(2 * _SECTION) else rest
    while True:
        key, rest = _next_key(here, rest, path)
        if not rest:
            here[key] = value
            return
        here = _below(here, path, key)


def _next_key(here: Mapping[str, Any], rest: str, path: str) -> tuple[str, str]:
    """Take the first key off a path."""
    if rest.startswith(".") or rest.endswith("."):
        raise ConfigError(f"--set {path!r}: a key is missing beside a dot")
    there = [key for key in here if rest == key or rest.startswith(f"{key}.")]
    if there:
        key = max(there, key=len)
        return key, rest.removeprefix(key)[1:]
    quoted = _QUOTED.match(rest)
    if quoted:
        return quoted[1] or quoted[2], rest[quoted.end() :]
    if rest.startswith(DOTTED_KEYS):
        return rest, ""
    key, _, below = rest.partition(".")
    return key, below


def _below(here: dict[str, Any], path: str, key: str) -> dict[str, Any]:
    if here.get(key) is None:
        here[key] = {}
    below = here[key]
    if not isinstance(below, dict):
        raise ConfigError(f"--set {path!r}: {key!r} is a value, it has no keys below it")
    return below


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
