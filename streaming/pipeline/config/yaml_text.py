"""Parse a job's YAML into plain data: check its keys, apply `--set`, substitute `${NAME}`.

The models validate the values. The redactor learns the variables' values, and the original texts
are kept, so that the config can be printed with its variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from streaming.pipeline.job_errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streaming.redaction import Redactor

#: Path of a value: the keys and list indexes that lead to it.
KeyPath = tuple[str, ...]

#: In a new key of `--set`, a dot separates levels, unless the key starts with one of these.
_DOTTED_KEY_PREFIXES = ("kafka.", "assignor.", "spark.", "kafkaConsumer.", "fetchOffset.")
_SPARK_PREFIX = "spark."
#: A quoted key in a `--set` path: `"a.b".rest` or `'a.b'`.
_QUOTED_KEY = re.compile(r"""(?:"([^"]+)"|'([^']+)')(?:\.(?=.)|$)""")
#: Quoted text in YAML's messages. Node types (`<scalar>`) and single characters are not secret.
_QUOTED_TEXT = re.compile(r"""(['"])(?:\\.|(?!\1)[^\\])*\1""")
_ASSIGNMENT = re.compile(r"""((?:"[^"]*"|'[^']*'|[^=])*)(=?)(.*)""", re.DOTALL)
_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")
#: Maximum number of values, against YAML bombs; far above any real job.
_MAX_VALUES = 10_000
_MAX_DEPTH = 50
#: Unquoted values that are not text: type, first characters, and pattern. In YAML 1.1, NO is false,
#: 1.10 is 1.1, 012 is 10, and 20:30 is 1230; here they are text.
_UNQUOTED_TYPES = (
    ("bool", "tf", "true|false"),
    ("int", "-0123456789", r"0|-?[1-9]\d{0,17}"),
    ("null", ["~", "n", ""], "~|null|"),
    ("merge", "<", "<<"),
)


class _Loader(yaml.SafeLoader):
    """A safe YAML loader that limits size and depth, and rejects duplicate keys.

    A `ConfigError` names the line, but does not show values, which may be secrets.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node; raise ConfigError if it is nested too deeply."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise ConfigError(f"line {line}: nested deeper than {_MAX_DEPTH} levels")
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        """Return the document, or None if it is empty; limit its size with aliases expanded."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _count_values(node, {})
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value; if it does not fit its type, raise an error that names the line."""
        try:
            return super().construct_object(node, deep)
        except (ConfigError, yaml.YAMLError):
            raise
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            raise _make_error(
                node, f"a value that looks like {kind!r} is invalid: put it in quotes if it is text"
            ) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping; reject duplicate keys and keys that are not strings."""
        if not isinstance(node, yaml.MappingNode):  # after a tag such as `!!set`
            raise _make_error(node, "a mapping is expected")
        seen_keys: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                is_scalar = isinstance(key_node, yaml.ScalarNode)
                key_text = f"the key {key_node.value!r}" if is_scalar else "a key"
                raise _make_error(key_node, f"{key_text} is not text: put it in quotes")
            if key in seen_keys and key != "<<":
                raise _make_error(key_node, f"duplicate key {key!r}")
            seen_keys.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
for _kind, _starts, _pattern in _UNQUOTED_TYPES:
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_pattern})\Z"), list(_starts)
    )


def _make_error(node: yaml.Node, text: str) -> ConfigError:
    return ConfigError(f"line {node.start_mark.line + 1}: {text}")


def _count_values(node: yaml.Node, size_by_id: dict[int, int | None]) -> int:
    """Count a node's values with aliases expanded; raise ConfigError for too many, or a cycle."""
    cached_size = size_by_id.get(id(node), 0)
    if cached_size is None:
        raise _make_error(node, "an alias refers to a value that contains it")
    if cached_size:
        return cached_size
    size_by_id[id(node)] = None  # being counted
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    size = 1 + sum(_count_values(child, size_by_id) for child in children)
    if size > _MAX_VALUES:
        raise _make_error(node, f"more than {_MAX_VALUES:,} values with aliases expanded")
    size_by_id[id(node)] = size
    return size


def parse_yaml(text: str) -> dict[str, Any]:
    """Parse one YAML document; raise ConfigError if it is not a valid mapping."""
    try:
        data = _load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = _QUOTED_TEXT.sub(_hide, getattr(error, "problem", None) or "cannot be parsed")
        raise ConfigError(f"{position}not valid YAML: {problem}") from None
    if not isinstance(data, dict):
        raise ConfigError("a mapping with the keys of a job is expected; see `assignor init`")
    return data


def _hide(quoted: re.Match[str]) -> str:
    is_value = len(quoted[0]) > len("'\\t'") and not quoted[0][1:].startswith(("<", "***"))
    return "'***'" if is_value else quoted[0]


def _load_yaml(text: str) -> Any:
    loader = _Loader(text)
    try:
        return map_values(loader.get_single_data())  # copies aliases, so that each can be changed
    except (ConfigError, yaml.YAMLError):
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ConfigError("not valid YAML: a value does not fit its tag") from error
    finally:
        loader.dispose()


def map_values(
    data: Any, change: Callable[[KeyPath, Any], Any] = lambda _, value: value, path: KeyPath = ()
) -> Any:
    """Copy nested mappings and lists, applying `change` to the path and value of each leaf."""
    if isinstance(data, Mapping):
        return {key: map_values(value, change, (*path, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [map_values(value, change, (*path, str(n))) for n, value in enumerate(data)]
    return change(path, data)


def apply_overrides(data: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Apply `--set key.path=value` to a copy of the data; raise ConfigError for an invalid one.

    Values are YAML, or text if they are not valid YAML. An existing key that contains dots is
    matched as a whole; a new one must be quoted, unless it has one of the `_DOTTED_KEY_PREFIXES`.
    """
    new_data: dict[str, Any] = map_values(data)
    for assignment in assignments:
        path, equals, text = _ASSIGNMENT.fullmatch(assignment).groups()  # type: ignore[union-attr]
        if not equals or not path.strip():  # it may contain a secret, so omit it
            raise ConfigError("--set: key.path=value is expected")
        try:
            value = _load_yaml(text) if text else ""
        except yaml.YAMLError:
            value = text
        except ConfigError as error:
            raise ConfigError(f"--set {path}: {error}") from None
        _set_value(new_data, path.strip(), value)
    return new_data


def _set_value(section: dict[str, Any], path: str, value: Any) -> None:
    remaining_path = path
    if path.startswith(_SPARK_PREFIX):  # the keys of the section `spark` have this prefix, too
        is_full = path.startswith(2 * _SPARK_PREFIX)
        remaining_path = "'spark'." + (path[len(_SPARK_PREFIX) :] if is_full else path)
    while True:
        if remaining_path.startswith(".") or remaining_path.endswith("."):
            raise ConfigError(f"--set {path!r}: a key is missing next to a dot")
        matching_keys = [
            key
            for key, entry in section.items()
            if remaining_path == key
            or (remaining_path.startswith(f"{key}.") and (entry is None or isinstance(entry, dict)))
        ]
        if matching_keys:
            key = max(matching_keys, key=len)
            remaining_path = remaining_path.removeprefix(key)[1:]
        elif quoted := _QUOTED_KEY.match(remaining_path):
            key, remaining_path = quoted[1] or quoted[2], remaining_path[quoted.end() :]
        elif remaining_path.startswith(_DOTTED_KEY_PREFIXES):
            key, remaining_path = remaining_path, ""
        else:
            key, _, remaining_path = remaining_path.partition(".")
        if not remaining_path:
            section[key] = value
            return
        if section.get(key) is None:
            section[key] = {}
        section = section[key]
        if not isinstance(section, dict):
            raise ConfigError(f"--set {path!r}: {key!r} is a value and has no keys below it")


def fill_variables(
    data: Any, environment: Mapping[str, str], redact: Redactor
) -> tuple[Any, dict[KeyPath, str]]:
    """Substitute `${NAME}` and `${NAME:-default}` in all texts; `$${` is an escaped `${`.

    Only a variable that is not set gets its default. Raises ConfigError if it has none, or if a
    `${` is malformed. Returns the data, and the original texts of substituted values by path.
    """
    original_texts: dict[KeyPath, str] = {}

    def substitute(path: KeyPath, value: Any) -> Any:
        if not isinstance(value, str) or "${" not in value:
            return value
        original_texts[path] = value
        return _VARIABLE.sub(lambda match: resolve(".".join(map(str, path)), match), value)

    def resolve(key_path: str, match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name, default = match[1], match[2]
        if name is None:
            raise ConfigError(
                f"{key_path}: '${{' does not start a ${{NAME}}: write '$${{' for a literal '${{'"
            )
        if name in environment:
            redact.learn_variable(name, environment[name])
            return environment[name]
        if default is None:
            raise ConfigError(
                f"{key_path}: the environment variable {name!r} is not set: set it, or write "
                f"${{{name}:-default}}"
            )
        return default

    return map_values(data, substitute), original_texts
