"""Build an HTML page that opens offline: it loads no scripts, fonts, or other files."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from streaming.report.svg import STYLE as PICTURE_STYLE
from streaming.report.svg import escape_html

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.observe.check_result import Check

_STYLE = PICTURE_STYLE + Path(__file__).with_name("page.css").read_text("utf-8")
_PAGE = Template(Path(__file__).with_name("page.html").read_text("utf-8"))


def page(title: str, parts: Sequence[str]) -> str:
    """Return a complete page; `parts` are HTML and are not escaped."""
    return _PAGE.substitute(title=escape_html(title), style=_STYLE, body="\n".join(parts))


def paragraph(words: str, css: str = "") -> str:
    """Write a paragraph of plain text."""
    return f'<p class="{css}">{escape_html(words)}</p>' if css else f"<p>{escape_html(words)}</p>"


def note(words: str) -> str:
    """Write a paragraph in small type."""
    return paragraph(words, "note")


def section_heading(words: str) -> str:
    """Write a section heading."""
    return f"<h2>{escape_html(words)}</h2>"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, ends_in_words: bool = False
) -> str:
    """Write a table with row headers in the first column; `ends_in_words` wraps the last column."""
    top = "".join(f'<th scope="col">{escape_html(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape_html(row[0])}</th>'
        + "".join(f"<td>{escape_html(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    css = ' class="words"' if ends_in_words else ""
    table_html = f"<table{css}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table_html}</div>'


def figure(title: str, svg: str, caption: str = "", key: str = "") -> str:
    """Frame a picture; `key` is the colour class of the legend mark before the title."""
    mark_html = f'<span class="key {key}"></span>' if key else ""
    caption_html = f"<figcaption>{escape_html(caption)}</figcaption>" if caption else ""
    return f"<figure><h3>{mark_html}{escape_html(title)}</h3>{svg}{caption_html}</figure>"


def side_by_side(figures: Sequence[str]) -> str:
    """Place figures side by side; a narrow screen stacks them."""
    return f'<div class="pair">{"".join(figures)}</div>'


def tiles(contents: Sequence[tuple[str, str, str]], *, is_calm: bool) -> str:
    """Write tiles with a title, a short text, and a note each; the first is red if not calm."""
    boxes = "".join(
        f"<div><h2>{escape_html(title)}</h2><strong>{escape_html(words)}</strong>"
        f"<p>{escape_html(note_text)}</p></div>"
        for title, words, note_text in contents
    )
    return f'<div class="tiles{" calm" if is_calm else ""}">{boxes}</div>'


def cause(title: str, why: str, remedy: str) -> str:
    """Write a cause with its evidence and its remedy."""
    remedy_html = f" <span>{escape_html(remedy)}</span>" if remedy else ""
    cause_html = f"<strong>{escape_html(title)}.</strong> {escape_html(why)}"
    return f'<p class="finding">{cause_html}{remedy_html}</p>'


def checks(results: Sequence[Check]) -> str:
    """Write a list of checks; a word and a colour show each outcome."""
    items = (
        f'<li><span class="{"yes" if c.holds else "no"}">{c.outcome}</span> '
        f"{escape_html(c.name)}: {escape_html(c.details)}</li>"
        for c in results
    )
    return f'<ul class="checks">{"".join(items)}</ul>'


def definitions(terms: Mapping[str, str]) -> list[str]:
    """Write the section that defines the page's figures."""
    items = "".join(
        f"<div><dt>{escape_html(term)}</dt><dd>{escape_html(meaning)}</dd></div>"
        for term, meaning in terms.items()
    )
    return [section_heading("Definitions"), f'<dl class="terms">{items}</dl>']
