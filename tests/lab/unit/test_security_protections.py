"""The list behind `python -m tests.lab.security.without`: its lines and its tests are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.lab.collected import collected
from tests.lab.security.without import listed, main

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", listed())
def test_a_protection_can_be_taken_out(name: str) -> None:
    one = listed()[name]
    assert one.protection.without(ROOT)
    path, _, function = one.test.split()[0].partition("::")
    assert re.search(rf"^def {function}", (ROOT / path).read_text(), re.MULTILINE)


def test_words_that_choose_a_test_choose_one() -> None:
    """`-k` with words that fit nothing would run nothing."""
    chosen = [shlex.split(one.test) for one in listed().values() if " -k " in one.test]
    tests = collected({words[0].partition("::")[0] for words in chosen}, "")
    for path, _, words in chosen:
        fitting = [
            test for test in tests
            if test.startswith(path)
            and all(word.lower() in test.lower() for word in words.split(" and "))
        ]  # fmt: skip
        assert fitting, (path, words)


def test_a_name_that_is_none_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("typo") == 2
    assert capsys.readouterr().err.startswith("'typo': all, jar, kafka, spark, unit, or a name of")
