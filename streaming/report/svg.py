"""Build SVG text from a few basic shapes.

Colours are CSS classes, so that one picture works in light mode, dark mode, and print. Pictures are
360 units wide: on a phone a unit is about a pixel, so that the text stays legible there.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge.errors import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 360
Box = tuple[float, float, float, float]  # x, y, width, height
#: CSS of a picture, for a page or for a standalone SVG file (in a README, on a slide).
STYLE = Path(__file__).with_name("picture.css").read_text("utf-8")


def escape_html(words: str) -> str:
    r"""Escape untrusted text for HTML; unprintable characters are shown as escape sequences.

    >>> escape_html("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    return escape("\n".join(map(escape_unprintable, words.split("\n"))))


def text(x: float, y: float, content: str, *, anchor: str = "start", css: str = "") -> str:
    """Write one line of text; `y` is its baseline."""
    attributes = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{_class_attribute(css)}'
    return f"<text {attributes}>{escape_html(content)}</text>"


def rect(box: Box, css: str, *, opacity: float | None = None, hint: str = "") -> str:
    """Draw a rectangle; `hint` is its tooltip."""
    x, y, width, height = box
    shade = "" if opacity is None else f' fill-opacity="{opacity:.2f}"'
    size = f'width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    tag = f'<rect x="{x:.1f}" y="{y:.1f}" {size}{shade}{_class_attribute(css)}'
    return f"{tag}><title>{escape_html(hint)}</title></rect>" if hint else f"{tag}/>"


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """Draw a straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{_class_attribute(css)}/>'


def picture(height: float, title: str, shapes: list[str]) -> str:
    """Wrap shapes into an SVG element; screen readers read the title aloud."""
    tag = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape_html(title)}">'
    return f"{tag}{''.join(shapes)}</svg>"


def standalone_picture(title: str, panels: Sequence[tuple[str, str]], columns: int = 2) -> str:
    """Return one SVG file with all pictures in columns, each below its heading."""
    gap, head = 24.0, 22.0
    shapes, tops = ['<rect width="100%" height="100%" class="paper"/>'], [6.0] * columns
    for index, (heading, svg) in enumerate(panels):
        column = index % columns
        x, y = gap / 2 + column * (WIDTH + gap), tops[column]
        size = re.match(r'<svg viewBox="0 0 \d+ (\d+)"', svg)
        height = float(size[1]) if size else 0.0
        shapes.append(text(x, y + 12, heading, css="t"))
        opening_tag = f'<svg x="{x:.0f}" y="{y + head:.0f}" width="{WIDTH}" height="{height:.0f}"'
        shapes.append(svg.replace("<svg", opening_tag, 1))
        tops[column] = y + head + height + 16
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {columns * (WIDTH + gap):.0f} {max(tops):.0f}" '
        f'aria-label="{escape_html(title)}">'
        f"<style>{STYLE}</style>{''.join(shapes)}</svg>\n"
    )


def _class_attribute(names: str) -> str:
    return f' class="{names}"' if names else ""
