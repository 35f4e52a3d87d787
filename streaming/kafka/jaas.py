"""Parse `sasl.jaas.config` as Kafka's Java client does (JaasConfig, 4.1), without leaking secrets.

A malformed value may contain passwords anywhere, so error messages never quote any part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streaming.redaction import unescape_jaas

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<quoted>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[^\s"'=;/]+)"""
    r"""|(?P<sign>[=;])""",
    re.DOTALL,
)
_FLAGS = ("required", "requisite", "sufficient", "optional")


class JaasError(ValueError):
    """A JAAS configuration that cannot be parsed; the message does not quote it."""


@dataclass(frozen=True)
class LoginModule:
    """A login module with its options."""

    #: Class name; hidden, because a malformed configuration may have a secret here.
    name: str = field(repr=False)
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Parse `class flag key="value" …;`; raise JaasError for another form or several modules."""
    tokens = list(_tokenize(text))
    if not tokens:
        raise JaasError("it is empty")
    text_tokens = [token for token in tokens if token not in (("sign", "="), ("sign", ";"))]
    if len(text_tokens) < 2 or any(kind == "sign" for kind, _ in tokens[:2]):
        raise JaasError("it does not start with a login module and a control flag")
    if tokens[1][1].lower() not in _FLAGS:
        raise JaasError(f"its control flag is not one of {', '.join(_FLAGS)}")
    if ("sign", ";") not in tokens:
        raise JaasError("it does not end with a semicolon")
    end = tokens.index(("sign", ";"))
    if end != len(tokens) - 1:
        raise JaasError("text follows its first semicolon: use one login module, and quote values")
    options: dict[str, str] = {}
    option_tokens = tokens[2:end]
    for i in range(0, len(option_tokens), 3):
        triple = option_tokens[i : i + 3]
        if [kind for kind, _ in triple[:2]] != ["word", "sign"] or len(triple) < 3:
            raise JaasError('its options are not all written as key="value"')
        if triple[2][0] == "sign":
            raise JaasError("one of its options has no value")
        options[triple[0][1]] = triple[2][1]
    return LoginModule(tokens[0][1], options)


def _tokenize(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            location = f"at character {position + 1}"
            if text[position] == "/" and not text.startswith("/*", position):
                raise JaasError(
                    f'the slash {location} is not in quotes: write options as key="value"'
                )
            raise JaasError(f"the quote or comment that opens {location} is not closed")
        position = match.end()
        kind = match.lastgroup
        if kind == "quoted":
            yield "quoted", unescape_jaas(match[0][1:-1])
        elif kind in ("word", "sign"):
            yield kind, match[0]
