"""Read a Java properties file, such as the `--command-config` of Kafka's tools.

By the rules of `java.util.Properties.load`: comments, `=`, `:` or a blank between key and value,
lines that continue after a backslash, escapes. No value is part of an error: they hold secrets.
"""

from __future__ import annotations

import re

from streaming.kafka.utf8 import join_surrogates

_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*(?:[=:][ \t\f]*)?", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


def read_properties(text: str) -> dict[str, str]:
    """Return the properties; of a key that is there twice, the last value."""
    properties = {}
    for line in _join_continued_lines(text):
        key = _KEY.match(line)
        assert key is not None  # noqa: S101  (it matches nothing, too)
        properties[_unescape(key[1])] = _unescape(line[key.end() :])
    return properties


def _join_continued_lines(text: str) -> list[str]:
    """Join continued lines; leave out blank ones and comments."""
    lines: list[str] = []
    begun = ""
    for raw in re.split(r"\r\n|\n|\r", text):
        line = raw.lstrip(_BLANK)
        if not begun and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun += line[:-1] if goes_on else line
        if not goes_on:
            lines.append(begun)
            begun = ""
    return [*lines, begun] if begun else lines


def _unescape(text: str) -> str:
    return join_surrogates(_ESCAPE.sub(_decode_escape, text))


def _decode_escape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code)
