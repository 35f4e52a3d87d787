"""One HTML file that opens offline: no scripts, no fonts, nothing fetched."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from streaming.report.svg import CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.observe.check import Check

# Okabe and Ito's palette, told apart by colour-blind readers too; lighter ones of it on dark.
_STYLE = (
    """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1d21;--muted:#5c626b;--grid:#d9dce1;
--track:#f0f1f4;--card:#f7f8fa;--a:#d55e00;--b:#0072b2;--heat:#56b4e9;--good:#00724f;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--paper:#14161a;--ink:#eceef2;--muted:#a3aab5;
--grid:#3a3f48;--track:#23262c;--card:#1c1f25;--a:#e69f00;--b:#56b4e9;--heat:#0072b2;
--good:#4cc79a;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:66rem;background:var(--paper);
color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .5rem}
h2{font-size:1.2rem;margin:2.2rem 0 .4rem}
h3{font-size:1rem;margin:0 0 .5rem;font-weight:600}
p{margin:.4rem 0;max-width:46rem}
.lead{font-size:1.08rem}
.note,figcaption{color:var(--muted);font-size:.9rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .9rem .35rem 0;text-align:right;border-bottom:1px solid var(--grid);
white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;min-width:9rem}
thead th{vertical-align:bottom;color:var(--muted);font-weight:600;white-space:normal}
.words td:last-child,.words th:last-child{text-align:left;white-space:normal;min-width:14rem}
.pair{margin:.8rem 0;align-items:start;display:grid;gap:1rem;
grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
figure{margin:0;padding:.9rem;background:var(--card);border-radius:.6rem;break-inside:avoid}
figcaption{margin-top:.5rem}
svg{display:block;width:100%;height:auto;max-width:34rem;font-size:11px}
"""
    + CLASSES
    + """.key{display:inline-block;width:.8em;height:.8em;border-radius:.15em;margin-right:.4em}
.key.a{background:var(--a)}.key.b{background:var(--b)}
ul.checks{list-style:none;padding:0}ul.checks li{margin:.2rem 0}
.yes{color:var(--good);font-weight:700}.no{color:var(--bad);font-weight:700}
@media (max-width:30rem){body{padding:1rem .7rem 2rem}th,td{padding-right:.5rem}
th:first-child,td:first-child{min-width:5rem}table{font-size:.95rem}
.words th:first-child{min-width:3rem}
.words td:last-child,.words th:last-child{min-width:8rem}}
@media print{.wide{overflow:visible}th,td{white-space:normal;padding-right:.5rem}
table{font-size:9.5pt}:root{color-scheme:light;--paper:#fff;--ink:#000;--muted:#444;--grid:#bbb;
--track:#eee;--card:#fff;--a:#d55e00;--b:#0072b2;--heat:#56b4e9;--good:#00724f;--bad:#b3261e}
body{max-width:none;padding:0;font-size:11pt}.pair{grid-template-columns:1fr 1fr}
figure{border:1px solid #bbb}h2{break-after:avoid}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
)


#: What is said of the colours.
PALETTE = (
    "Colours: orange for Spark's mapping, blue for ours, of Okabe and Ito's palette, which "
    "colour-blind readers tell apart; heat maps are shades of one blue."
)


def page(title: str, parts: Sequence[str]) -> str:
    """Put parts, which are HTML already, into a page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def paragraph(words: str, css: str = "") -> str:
    """Write a paragraph of plain text."""
    return f'<p class="{css}">{escape(words)}</p>' if css else f"<p>{escape(words)}</p>"


def heading(words: str) -> str:
    """Write a section's heading."""
    return f"<h2>{escape(words)}</h2>"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, ends_in_words: bool = False
) -> str:
    """Write a table whose first column names the rows; words in the last one may wrap."""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
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
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure><h3>{mark}{escape(title)}</h3>{svg}{below}</figure>"


def side_by_side(figures: Sequence[str]) -> str:
    """Lay figures out beside each other, below each other on a phone."""
    return f'<div class="pair">{"".join(figures)}</div>'


def checks(found: Sequence[Check]) -> str:
    """List checks, each with its outcome as a word and a colour."""
    return (
        '<ul class="checks">'
        + "".join(
            f'<li><span class="{"yes" if c.holds else "no"}">{"ok" if c.holds else "FAILED"}</span>'
            f" {escape(c.what)}: {escape(c.found)}</li>"
            for c in found
        )
        + "</ul>"
    )
