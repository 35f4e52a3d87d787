"""The site that `make docs` builds: these pages, three of the root, and the API from docstrings.

Pages are written for a reader of the repository, so links lead to files. Here those of the root
become pages, and other files (examples, source) become downloads; both by MyST's own rules.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
#: Pages of the site that are files at the root of the repository.
AT_THE_ROOT = {
    "index": "README.md",
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    "security-policy": "SECURITY.md",
}
_PAGE_OF = {HERE.parent / name: HERE / f"{page}.md" for page, name in AT_THE_ROOT.items()}
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)((?:#[^)\s]*)?)\)")

project = "assignor-bridge"
author = "the assignor-bridge authors"
project_copyright = f"2026, {author}"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
# Nothing is fetched when the site is read: the theme has no fonts of others, the search is local.
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_title = f"assignor-bridge {version}"
html_show_sphinx = False
# Names of sections as in the repository's own view of these pages.
myst_heading_anchors = 4
# Examples of output and of JSON with something left out are no programs.
# Pages may begin with sections of the third level.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_use_rtype = False
# `name` in docstrings is what it is in these pages.
default_role = "literal"


def _take_page(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put a page of the root before what its file here holds, and turn links into the site's."""
    folder = (HERE / page).parent
    name = AT_THE_ROOT.get(page)
    if name:
        text = (HERE.parent / name).read_text(encoding="utf-8")
        after = source[0].partition("<!-- site -->")[2]
        source[0] = _LINK.sub(lambda m: f"]({os.path.relpath(m[1], 'docs')}{m[2]})", text) + after

    def link_of_site(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / match[1]))
        at_the_site = _PAGE_OF.get(target)
        link = os.path.relpath(at_the_site, folder) if at_the_site else match[1]
        return f"]({link}{match[2]})"

    source[0] = _LINK.sub(link_of_site, source[0])


def setup(app: Sphinx) -> None:
    """Register what reads pages of the root."""
    app.connect("source-read", _take_page)
