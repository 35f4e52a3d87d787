"""Earlier names of commands and options: they work, and neither the help nor the docs has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Commands that are called with `assignor lab` now.
LAB = ("plan", "assign", "simulate", "broker", "schema")
#: What earlier commands stand for.
COMMANDS = {
    "explain": ["report", "--batch=-1"],
    "offsets": ["lag", "--as=starting-offsets"],
    "replay": ["estimate"],
    "top": ["report", "--live"],
    **{name: ["lab", name] for name in LAB},
}
#: Earlier options by command, with the option of today; empty if the value is an argument now.
OPTIONS = {
    "audit": {"--checkpoint": ""},
    "demo": {"--report": "--output"},
    "doctor": {"--delta-table": "--table"},
    "estimate": {"--checkpoint": ""},
    "jars": {"--job": ""},
    "lab": {"--own": "--assignors"},
    "lag": {"--checkpoint": ""},
    "report": {"--checkpoint": "", "--plan-log": ""},
}


def translate(words: Sequence[str]) -> list[str]:
    """Return a command line in the names of today.

    As before, an option takes the next word as its value, and its last value is used. Without a
    value it gives an empty argument, which commands refuse.

    >>> translate(["offsets", "--checkpoint=c", "--source", "0"])
    ['lag', '--as=starting-offsets', 'c', '--source', '0']
    """
    if not words:
        return []
    command = COMMANDS.get(words[0], [words[0]])
    options = OPTIONS.get(command[0], {})
    arguments: dict[str, str] = {}
    others = []
    remaining = iter(words[1:])
    for word in remaining:
        option, equals, value = word.partition("=")
        if word == "--":
            others += [word, *remaining]
        elif option not in options:
            others.append(word)
        elif options[option]:
            others.append(options[option] + equals + value)
        else:
            path = value if equals else next(remaining, "")
            arguments[option] = f"./{path}" if path.startswith("-") else path
    return [*command, *arguments.values(), *others]
