"""Parse a Java properties file, such as the `--command-config` of Kafka's tools.

It supports the syntax of `java.util.Properties.load`: comments, `=`, `:` or whitespace after
the key, continuation lines, and escapes. Any text is accepted, even escapes that Java rejects.
"""

from __future__ import annotations

import re

from streaming.kafka.utf8 import join_surrogates

_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*(?:[=:][ \t\f]*)?", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CHARACTER_BY_ESCAPE = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties in a text; if a key is repeated, its last value is used."""
    properties = {}
    for line in _join_lines(text):
        key_match = next(_KEY.finditer(line))  # at the start, because it also matches ""
        properties[_unescape(key_match[1])] = _unescape(line[key_match.end() :])
    return properties


def _join_lines(text: str) -> list[str]:
    """Join continuation lines; omit blank lines and comments."""
    lines: list[str] = []
    joined_line, is_continued = "", False
    for raw_line in re.split(r"\r\n|\n|\r", text):
        line = raw_line.lstrip(_BLANK)
        if not is_continued and (not line or line[0] in "#!"):
            continue
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined_line += line[:-1] if is_continued else line
        if not is_continued:
            lines += [joined_line] if joined_line else []
            joined_line = ""
    return [*lines, joined_line] if is_continued else lines  # at the end, even a lone \ is a line


def _unescape(text: str) -> str:
    return join_surrogates(_ESCAPE.sub(_decode_escape, text))


def _decode_escape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _CHARACTER_BY_ESCAPE.get(code, code)
