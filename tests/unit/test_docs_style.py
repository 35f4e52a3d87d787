"""The book stays one that people finish: bounds of length, and what its pages do not contain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.unit.test_docs import (
    EVIDENCE,
    ROOT,
    STYLE,
    internal_pages,
    name_of,
    section_of,
    user_pages,
)

if TYPE_CHECKING:
    from pathlib import Path

#: Written by the program, or stubs that the site fills with a page of the root.
GENERATED = {
    "benchmark-results.md",
    "cli.md",
    "changelog.md",
    "contributing.md",
    "security-policy.md",
}
MAX_PAGE_WORDS = 1_650
MAX_USER_WORDS = 20_000
MAX_INTERNAL_WORDS = 8_000
_GENERATED_PART = re.compile(
    r"<!-- The (?:second )?tables? (?:is|are) generated.*?<!-- End of the (?:second )?tables?. -->",
    re.DOTALL,
)
_CODE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    """Return what people wrote: no generated tables, no programs and samples of output."""
    return _CODE.sub("", _GENERATED_PART.sub("", page.read_text(encoding="utf-8")))


def count_words(text: str) -> int:
    return sum(1 for word in text.split() if re.search(r"\w", word))


def written(pages: list[Path]) -> list[Path]:
    return [page for page in pages if page.name not in GENERATED]


def test_the_readme_is_short():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 120
    assert len(readme.split()) <= 900


def test_the_pages_for_users_can_be_finished():
    words = {name_of(page): count_words(prose(page)) for page in written(user_pages())}
    assert sum(words.values()) <= MAX_USER_WORDS
    assert {page: count for page, count in words.items() if count > MAX_PAGE_WORDS} == {}


def test_the_pages_for_contributors_are_bounded():
    """The lists of tests in the evidence are no prose."""
    assert count_words(prose(STYLE)) <= 450
    words = sum(count_words(prose(page)) for page in internal_pages() if page != STYLE)
    for heading in ("Guarantees", "Changes between two runs"):
        words -= count_words(section_of(EVIDENCE, heading))
    assert words <= MAX_INTERNAL_WORDS


@pytest.mark.parametrize("page", written(user_pages()), ids=name_of)
def test_a_page_for_users_has_no_commits_and_no_tests(page: Path):
    text = re.sub(r"https?://\S+", "", prose(page))
    hashes = re.findall(r"(?<![\w+])(?=\w*\d)(?=\w*[a-f])[0-9a-f]{7,40}(?!\w)", text)
    assert hashes == []
    assert re.findall(r"\btests/\w+|\btest_\w+", text) == []


def test_each_page_is_in_the_navigation():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {
        line.strip()
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", index, flags=re.DOTALL)
        for line in tree.splitlines()
    }
    names = {name_of(page).removesuffix(".md") for page in [*user_pages(), *internal_pages()]}
    assert names - listed == {"README", "index"}


@pytest.mark.parametrize("page", [*user_pages(), *internal_pages()], ids=name_of)
def test_its_tables_are_whole(page: Path):
    """Each has a line below its head, and the same number of cells in each row."""
    text = re.sub(r"`[^`\n]*`", "code", _CODE.sub("", page.read_text(encoding="utf-8")))
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        head, *rows = table.splitlines()
        assert rows, head
        assert re.fullmatch(r"\|(?: ?-+ ?\|)+", rows[0]), head
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {head.count("|")}, head
