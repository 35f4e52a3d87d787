"""The few shapes that the pictures are made of, as SVG text.

Colours are CSS classes, so one picture follows the page into light, dark and print. Pictures are
360 units wide: on a phone a unit is about a pixel, so that the text stays legible there.
"""

from __future__ import annotations

from html import escape

WIDTH = 360
TEXT_PX = 11


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


def short(number: float) -> str:
    """Write a count in few characters.

    >>> [short(n) for n in (0, 950, 1200, 58665, 3_400_000)]
    ['0', '950', '1.2k', '59k', '3.4M']
    """
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            value = number / limit
            return f"{value:.0f}{suffix}" if value >= 10 else f"{value:.1f}{suffix}"
    return f"{number:.0f}"


def _css(names: str) -> str:
    return f' class="{names}"' if names else ""
