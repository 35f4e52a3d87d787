"""Definitions on a page, without a script: each term in its texts links to what it means.

The definition is shown when the pointer rests on a term. A click lays it over the lower edge of the
window, on a phone too, until it is closed. All of them are listed on the page, and in print.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from streaming.report.page import Html, heading
from streaming.report.svg import escaped

if TYPE_CHECKING:
    from collections.abc import Mapping


def linked(words: str, terms: Mapping[str, str]) -> Html:
    """Escape a text, and link each term in it, once, to its definition; the longest term wins."""
    longest_first = sorted(terms, key=lambda term: (-len(term), term))
    pieces = re.split(f"({'|'.join(map(re.escape, longest_first))})", words)
    parts, linked_already = [], set[str]()
    for number, piece in enumerate(pieces):
        is_term = number % 2 == 1 and piece not in linked_already
        parts.append(_link(piece, terms[piece]) if is_term else escaped(piece))
        linked_already.add(piece)
    return Html("".join(parts))


def listed(terms: Mapping[str, str]) -> Html:
    """List all terms with their definitions."""
    close = '<a class="close" href="#0">close</a>'  # an anchor that is nowhere: nothing scrolls
    items = (
        f'<div id="{_anchor(term)}"><dt>{escaped(term)}</dt>'
        f"<dd>{escaped(meaning)} {close}</dd></div>"
        for term, meaning in terms.items()
    )
    return Html(f'<dl class="terms">{"".join(items)}</dl>')


def section(terms: Mapping[str, str]) -> list[str]:
    """Write the section at the end of a page that links of `linked` lead to."""
    return [heading("What the figures mean"), listed(terms)]


def _link(term: str, meaning: str) -> str:
    return f'<a class="term" href="#{_anchor(term)}" title="{escaped(meaning)}">{escaped(term)}</a>'


def _anchor(term: str) -> str:
    return "term-" + re.sub(r"\W+", "-", term.lower())
