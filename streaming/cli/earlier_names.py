"""Former names of commands and options; they still work, but help and docs omit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Former commands that are now under `assignor lab`.
LAB_COMMANDS = ("plan", "assign", "simulate", "broker", "schema")
#: The words that replace each former command.
COMMANDS = {
    "explain": ["report", "--batch=-1"],
    "offsets": ["lag", "--as=starting-offsets"],
    "replay": ["estimate"],
    "top": ["report", "--live"],
    **{name: ["lab", name] for name in LAB_COMMANDS},
}
#: Replacement of each former option, by command; empty if the value is now an argument.
OPTIONS = {
    "audit": {"--checkpoint": ""},
    "demo": {"--report": "--output"},
    "doctor": {"--delta-table": "--table"},
    "estimate": {"--checkpoint": ""},
    "jars": {"--job": ""},
    "lab plan": {"--own": "--assignors"},
    "lab assign": {"--own": "--assignors"},
    "lag": {"--checkpoint": ""},
    "report": {"--checkpoint": "", "--plan-log": ""},
}


def replace_former_names(words: Sequence[str]) -> list[str]:
    """Return a command line with its former names replaced.

    A former option whose value is now an argument is replaced by its value, the last one if it is
    repeated. A value that begins with `-` gets `./`. A missing value becomes an empty argument.

    >>> replace_former_names(["offsets", "--checkpoint=c", "--source", "0"])
    ['lag', '--as=starting-offsets', 'c', '--source', '0']
    """
    if not words:
        return []
    command = COMMANDS.get(words[0], [words[0]])
    command_words = [*command, *words[1:]][: 2 if command[0] == "lab" else 1]
    options = OPTIONS.get(" ".join(command_words), {})
    arguments: dict[str, str] = {}
    other_words = []
    remaining_words = iter(words[1:])
    for word in remaining_words:
        option, equals, value = word.partition("=")
        if word == "--":
            other_words += [word, *remaining_words]
        elif option not in options:
            other_words.append(word)
        elif options[option]:
            other_words.append(options[option] + equals + value)
        else:
            path = value if equals else next(remaining_words, "")
            arguments[option] = f"./{path}" if path.startswith("-") else path
    return [*command, *arguments.values(), *other_words]
