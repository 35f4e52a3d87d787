"""One HTML file that opens offline: no scripts, no fonts, nothing fetched."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from streaming.report.svg import STYLE as PICTURE_STYLE
from streaming.report.svg import escaped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.observe.check import Check

_STYLE = PICTURE_STYLE + Path(__file__).with_name("page.css").read_text("utf-8")
_PAGE = Template(Path(__file__).with_name("page.html").read_text("utf-8"))


def page(title: str, parts: Sequence[str]) -> str:
    """Put parts, which are HTML already, into a page."""
    return _PAGE.substitute(title=escaped(title), style=_STYLE, body="\n".join(parts))


def paragraph(words: str, css: str = "") -> str:
    """Write a paragraph of plain text."""
    return f'<p class="{css}">{escaped(words)}</p>' if css else f"<p>{escaped(words)}</p>"


def note(words: str) -> str:
    """Write a paragraph in small print."""
    return paragraph(words, "note")


def heading(words: str) -> str:
    """Write a section's heading."""
    return f"<h2>{escaped(words)}</h2>"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, ends_in_words: bool = False
) -> str:
    """Write a table whose first column names the rows; words in the last one may wrap."""
    top = "".join(f'<th scope="col">{escaped(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escaped(row[0])}</th>'
        + "".join(f"<td>{escaped(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    css = ' class="words"' if ends_in_words else ""
    return (
        f'<div class="wide"><table{css}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def figure(title: str, svg: str, caption: str = "", key: str = "") -> str:
    """Frame a picture; `key` is the colour class that stands before the title."""
    mark = f'<span class="key {key}"></span>' if key else ""
    below = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    return f"<figure><h3>{mark}{escaped(title)}</h3>{svg}{below}</figure>"


def side_by_side(figures: Sequence[str]) -> str:
    """Lay figures out side by side, on a phone one below the other."""
    return f'<div class="pair">{"".join(figures)}</div>'


def tiles(listed: Sequence[tuple[str, str, str]], *, is_calm: bool) -> str:
    """Write the first screen: what each tile is about, its words, and its figure."""
    boxes = "".join(
        f"<div><h2>{escaped(title)}</h2><strong>{escaped(words)}</strong><p>{escaped(figure)}</p></div>"
        for title, words, figure in listed
    )
    return f'<div class="tiles{" calm" if is_calm else ""}">{boxes}</div>'


def finding(title: str, why: str, remedy: str) -> str:
    """Write a cause, what tells it and what would help."""
    help_ = f" <span>{escaped(remedy)}</span>" if remedy else ""
    return f'<p class="finding"><strong>{escaped(title)}.</strong> {escaped(why)}{help_}</p>'


def checks(listed: Sequence[Check]) -> str:
    """List checks, each with its outcome as a word and a colour."""
    items = (
        f'<li><span class="{"yes" if c.holds else "no"}">{c.outcome}</span> '
        f"{escaped(c.what)}: {escaped(c.details)}</li>"
        for c in listed
    )
    return f'<ul class="checks">{"".join(items)}</ul>'


def definitions(terms: Mapping[str, str]) -> list[str]:
    """Write the section at the end of a page that says what its figures mean."""
    items = "".join(
        f"<div><dt>{escaped(term)}</dt><dd>{escaped(meaning)}</dd></div>"
        for term, meaning in terms.items()
    )
    return [heading("What the figures mean"), f'<dl class="terms">{items}</dl>']
