"""The harness of `make fuzz`: it finds a planted bug, keeps the input, and tries it first again."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

import pytest

from tests.lab.fuzz.__main__ import fuzz, show
from tests.lab.fuzz.engine import with_other_token
from tests.lab.fuzz.guard import Guard, Kind
from tests.lab.fuzz.kinds import KINDS

if TYPE_CHECKING:
    from pathlib import Path


def guard_of(folder: Path, kind: Kind) -> Guard:
    for name in ("failures", "corpus"):
        (folder / name).mkdir(exist_ok=True)
    return Guard(kind, folder)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_writers_write_is_read(kind: Kind, tmp_path: Path):
    guard = guard_of(tmp_path, kind)
    (tmp_path / "work").mkdir()
    seeds = kind.seeds(tmp_path / "work")
    assert seeds
    assert all(map(guard, seeds)), guard.failures
    assert max(map(len, seeds)) <= kind.longest
    read = 0
    for seed in seeds:
        try:
            kind.read(seed)
            read += 1
        except kind.may_raise:
            continue
    assert read, "no seed is read to its end"


def test_a_bug_that_only_coverage_leads_to_is_found_and_kept(tmp_path: Path, capsys):
    pytest.importorskip("atheris")
    outcome = fuzz("planted", 0, tmp_path, "tests.lab.fuzz.planted")
    [failure] = outcome.failures
    assert failure.startswith("KeyError at planted.py:")
    assert outcome.runs > 0
    assert outcome.features > 0
    [kept] = [f for f in (tmp_path / "failures").iterdir() if f.suffix != ".txt"]
    assert kept.read_bytes().startswith(b"BUG")
    assert "KeyError: 'planted'" in kept.with_suffix(".txt").read_text()
    show([outcome])
    assert re.search(r"planted .*\b1\b", capsys.readouterr().out)


def _fails(data: bytes) -> None:
    if data.startswith(b"bad"):
        raise KeyError("bad")
    if data == b"warns":
        import warnings

        warnings.warn("a warning is an error", RuntimeWarning, stacklevel=1)
    if data == b"leaves":
        raise SystemExit(1)
    if data == b"refused":
        raise ValueError("as it may")


def test_each_place_is_kept_once_and_tried_again(tmp_path: Path):
    kind = Kind("k", _fails, (ValueError,), lambda _: [])
    guard = guard_of(tmp_path, kind)
    inputs = (b"good", b"refused", b"bad 1", b"bad 2", b"warns", b"leaves")
    assert [guard(data) for data in inputs] == [True, True, False, False, False, False]
    assert len(guard.failures) == 3
    again = guard_of(tmp_path, kind)
    assert again.earlier() == 3
    assert len(again.failures) == 3
    mended = guard_of(tmp_path, Kind("k", lambda _: None, (), lambda _: []))
    assert mended.earlier() == 3
    assert not mended.failures
    assert not [*mended.kept.iterdir()]
    assert {f.read_bytes() for f in (tmp_path / "corpus").iterdir()} == {
        b"bad 1", b"warns", b"leaves",
    }  # fmt: skip


def test_json_mostly_stays_json():
    data = json.dumps({"a": [1, 2, {"b": "c"}], "d": -4.5}).encode()
    made = [with_other_token(data, [b"null"], random.Random(seed)) for seed in range(300)]
    assert len(set(made)) > 100
    assert sum(_is_json(each) for each in made if each) > 30


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
