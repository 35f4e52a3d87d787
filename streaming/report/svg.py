"""The few shapes that the pictures are made of, as SVG text.

Colours are CSS classes, so one picture follows the page into light, dark and print. Pictures are
360 units wide: on a phone a unit is about a pixel, so that the text stays legible there.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 360
TEXT_PX = 11

# The page's colours again, for a picture that stands alone (in a README, on a slide).
_ALONE = """svg{--paper:#fff;--ink:#1b1d21;--muted:#5c626b;--grid:#d9dce1;--track:#f0f1f4;
--a:#d55e00;--b:#0072b2;--heat:#56b4e9;font:11px system-ui,"Segoe UI",Roboto,sans-serif}
@media (prefers-color-scheme:dark){svg{--paper:#14161a;--ink:#eceef2;--muted:#a3aab5;
--grid:#3a3f48;--track:#23262c;--a:#e69f00;--b:#56b4e9;--heat:#0072b2}}"""
#: How the classes look, in a page and alone.
CLASSES = """
svg text{fill:var(--ink)}svg .m{fill:var(--muted)}svg .s{font-size:9.5px}
svg .a{fill:var(--a)}svg .b{fill:var(--b)}svg .heat{fill:var(--heat)}svg .track{fill:var(--track)}
svg .grid{stroke:var(--grid)}svg .mean{stroke:var(--ink);stroke-dasharray:3 3}
svg .lheat{stroke:var(--heat)}
svg .la{stroke:var(--a);stroke-width:1.6}svg .lb{stroke:var(--b);stroke-width:1.6}
"""


def text(x: float, y: float, content: str, *, anchor: str = "start", css: str = "") -> str:
    """Write one line of text; `y` is its base line."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{_css(css)}>{escape(content)}</text>'
    )


def rect(x: float, y: float, width: float, height: float, css: str, *,
         opacity: float | None = None, hint: str = "") -> str:  # fmt: skip
    """Draw a rectangle; `hint` is shown when the pointer rests on it."""
    shade = "" if opacity is None else f' fill-opacity="{opacity:.2f}"'
    box = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
        f"{shade}{_css(css)}"
    )
    return f"{box}><title>{escape(hint)}</title></rect>" if hint else f"{box}/>"


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """Draw a straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{_css(css)}/>'


def picture(height: float, title: str, shapes: list[str]) -> str:
    """Wrap shapes into a picture; the title is what a screen reader says."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        + "".join(shapes)
        + "</svg>"
    )


def standalone(title: str, panels: Sequence[tuple[str, str]], columns: int = 2) -> str:
    """Lay pictures out beside each other in one file, each under its heading."""
    gap, head = 24.0, 22.0
    shapes, tops = [], [6.0] * columns
    for index, (heading, drawn) in enumerate(panels):
        column = index % columns
        x, y = gap / 2 + column * (WIDTH + gap), tops[column]
        found = re.match(r'<svg viewBox="0 0 \d+ (\d+)"', drawn)
        height = float(found[1]) if found else 0.0
        shapes.append(f'<text class="t" x="{x:.0f}" y="{y + 12:.0f}">{escape(heading)}</text>')
        place = f'<svg x="{x:.0f}" y="{y + head:.0f}" width="{WIDTH}" height="{height:.0f}"'
        shapes.append(drawn.replace("<svg", place, 1))
        tops[column] = y + head + height + 16
    width, height = columns * (WIDTH + gap), max(tops)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img"'
        f' aria-label="{escape(title)}"><style>{_ALONE}{CLASSES}'
        f"svg .t{{font-weight:600;font-size:12px}}</style>"
        f'<rect width="100%" height="100%" style="fill:var(--paper)"/>{"".join(shapes)}</svg>\n'
    )


def _css(names: str) -> str:
    return f' class="{names}"' if names else ""
