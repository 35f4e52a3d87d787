"""From the YAML of a job to plain data: keys once only, `--set` applied, `${ENV}` filled in.

Nothing is validated here; the models do that. Every value that came from the environment is told
to the redactor, and where it stood is kept, so that it can be shown as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from streaming.pipeline.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streaming.redaction import Redactor

#: Where a value stands: the keys and numbers that lead to it.
Path = tuple[str, ...]

#: Keys with dots in them begin like this; all other dots of `--set` lead one level down.
_DOTTED_KEYS = ("kafka.", "assignor.", "spark.", "kafkaConsumer.", "fetchOffset.")
_SECTION = "spark."
#: `"a.b".rest` or `'a.b'`.
_QUOTED = re.compile(r"""(?:"([^"]+)"|'([^']+)')(?:\.(?=.)|$)""")
#: What YAML's own words quote; kinds (`<scalar>`) and single characters are no secrets.
_QUOTES = re.compile(r"""(['"])(?:\\.|(?!\1)[^\\])*\1""")
_SET = re.compile(r"""((?:"[^"]*"|'[^']*'|[^=])*)(=?)(.*)""", re.DOTALL)
_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")
#: A job has a few hundred values at most, nested a few levels.
_MOST_VALUES = 10_000
_DEEPEST = 50
#: What is no text without quotes, by the kind, its first characters, and its pattern. To YAML 1.1,
#: NO is a flag, 1.10 is 1.1, 012 is 10, and 20:30 is 1230; here they are the text as written.
_NO_TEXT = (
    ("bool", "tf", "true|false"),
    ("int", "-0123456789", r"0|-?[1-9]\d{0,17}"),
    ("null", ["~", "n", ""], "~|null|"),
    ("merge", "<", "<<"),
)


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, with bounds, for which a key that stands twice is an error.

    Each `ConfigError` names its line and shows no value, which may be a secret.
    """

    _depth = 0

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
        """Return the document, if it is no larger with its aliases written out than it may be."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _size(node, {})
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Make a value; the error of one that does not fit its type names its line."""
        try:
            return super().construct_object(node, deep)
        except (ConfigError, yaml.YAMLError):
            raise
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            raise _error(
                node, f"a value that looks like {kind!r} is not one: put it in quotes if it is text"
            ) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Make a mapping whose keys are text, each there once."""
        if not isinstance(node, yaml.MappingNode):  # of a tag such as `!!set`
            raise _error(node, "a mapping is expected")
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                is_word = isinstance(key_node, yaml.ScalarNode)
                which = f"the key {key_node.value!r}" if is_word else "a key"
                raise _error(key_node, f"{which} is not text: put it in quotes")
            if key in seen and key != "<<":
                raise _error(key_node, f"duplicate key {key!r}")
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
for _kind, _first, _pattern in _NO_TEXT:
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_pattern})\Z"), list(_first)
    )


def _error(node: yaml.Node, text: str) -> ConfigError:
    return ConfigError(f"line {node.start_mark.line + 1}: {text}")


def _size(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """Count the values below a node as if each alias were written out."""
    known = sizes.get(id(node), 0)
    if known is None:
        raise _error(node, "an alias refers to a value that contains it")
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
        raise _error(node, f"more than {_MOST_VALUES:,} values, with aliases written out")
    sizes[id(node)] = size
    return size


def parse_yaml(text: str) -> dict[str, Any]:
    """Parse one YAML document that must be a mapping."""
    try:
        data = _load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = _QUOTES.sub(_hide, getattr(error, "problem", None) or "cannot be parsed")
        raise ConfigError(f"{where}not valid YAML: {problem}") from None
    if not isinstance(data, dict):
        raise ConfigError("a mapping with the keys of a job is expected; see `assignor init`")
    return data


def _hide(quoted: re.Match[str]) -> str:
    is_value = len(quoted[0]) > len("'\\t'") and not quoted[0][1:].startswith(("<", "***"))
    return "'***'" if is_value else quoted[0]


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        return mapped(loader.get_single_data())  # a change must not be one of an alias, too
    except (ConfigError, yaml.YAMLError):
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ConfigError("not valid YAML: a tag and its value do not fit together") from error
    finally:
        loader.dispose()


def mapped(
    data: Any, change: Callable[[Path, Any], Any] = lambda _, value: value, path: Path = ()
) -> Any:
    """Copy mappings and lists, with each value in them changed by where it stands."""
    if isinstance(data, Mapping):
        return {key: mapped(value, change, (*path, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [mapped(value, change, (*path, str(n))) for n, value in enumerate(data)]
    return change(path, data)


def with_sets(data: Mapping[str, Any], sets: Iterable[str]) -> dict[str, Any]:
    """Return the data with `--set key.path=value` put in; the value is read as YAML.

    Where a key has dots in it, one that is there is taken; a new one is written in quotes.
    """
    changed: dict[str, Any] = mapped(data)
    for assignment in sets:
        path, equals, text = _SET.fullmatch(assignment).groups()  # type: ignore[union-attr]
        if not equals or not path.strip():  # not shown: it may be a value that lost its key
            raise ConfigError("--set: key.path=value is expected")
        try:
            value = _load(text) if text else ""
        except yaml.YAMLError:
            value = text
        except ConfigError as error:
            raise ConfigError(f"--set {path}: {error}") from None
        _put(changed, path.strip(), value)
    return changed


def _put(section: dict[str, Any], path: str, value: Any) -> None:
    rest = path
    if path.startswith(_SECTION):  # each key of the section `spark` begins so itself
        rest = "'spark'." + (path[len(_SECTION) :] if path.startswith(2 * _SECTION) else path)
    while True:
        if rest.startswith(".") or rest.endswith("."):
            raise ConfigError(f"--set {path!r}: a key is missing next to a dot")
        known = [
            key
            for key, held in section.items()
            if rest == key
            or (rest.startswith(f"{key}.") and (held is None or isinstance(held, dict)))
        ]
        if known:
            key = max(known, key=len)
            rest = rest.removeprefix(key)[1:]
        elif quoted := _QUOTED.match(rest):
            key, rest = quoted[1] or quoted[2], rest[quoted.end() :]
        elif rest.startswith(_DOTTED_KEYS):
            key, rest = rest, ""
        else:
            key, _, rest = rest.partition(".")
        if not rest:
            section[key] = value
            return
        if section.get(key) is None:
            section[key] = {}
        section = section[key]
        if not isinstance(section, dict):
            raise ConfigError(f"--set {path!r}: {key!r} is a value and has no keys below it")


def fill_in(
    data: Any, environment: Mapping[str, str], redact: Redactor
) -> tuple[Any, dict[Path, str]]:
    """Replace `${NAME}` and `${NAME:-default}` in all texts; `$${` stands for a plain `${`.

    Return the data, and the text as it was written for each place where something was replaced.
    """
    written: dict[Path, str] = {}

    def fill(path: Path, value: Any) -> Any:
        if not isinstance(value, str) or "${" not in value:
            return value
        written[path] = value
        return _VARIABLE.sub(lambda match: variable(".".join(map(str, path)), match), value)

    def variable(where: str, match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name, default = match[1], match[2]
        if name is None:
            raise ConfigError(
                f"{where}: '${{' does not begin a ${{NAME}}: write '$${{' for the plain text"
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

    return mapped(data, fill), written
