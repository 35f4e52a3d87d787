"""The list behind `python -m tests.security.without`: its lines and its tests are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.security.without import listed, main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", listed())
def test_a_protection_can_be_taken_out(name: str) -> None:
    one = listed()[name]
    assert one.protection.without(ROOT)
    path, _, function = one.test.split()[0].partition("::")
    assert re.search(rf"^def {function}", (ROOT / path).read_text(), re.MULTILINE)


def test_a_name_that_is_none_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("typo") == 2
    assert capsys.readouterr().err.startswith("'typo': all, jar, kafka, spark, unit, or a name of")
