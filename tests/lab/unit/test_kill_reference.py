"""The plain Python reference that an upsert is compared with after each kill."""

from __future__ import annotations

import pytest

from tests.lab.kills.feed import GONE, Change, Reference


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(
            [[Change(1, 5, "new", 0), Change(1, 4, "late", 9)]], [[1, 5, "new", False, 0, 0]],
            id="a late record changes nothing",
        ),
        pytest.param(
            [[Change(1, 5, "a", 9), Change(1, 5, "b", 6)], [Change(1, 5, "a", 7)]],
            [[1, 5, "b", False, 0, 1]],
            id="of equal seq the greater offset stays, whatever its timestamp",
        ),
        pytest.param(
            [[Change(1, 5, "a", 7)], [Change(1, 5, "b", 7)]], [[1, 5, "b", False, 1, 0]],
            id="then the greater partition",
        ),
        pytest.param(
            [[Change(2, 1, "a", 0), Change(2, 2, GONE, 0), Change(2, 1, "a", 0)]],
            [[2, 2, GONE, True, 0, 1]],
            id="a deleted key stays deleted",
        ),
    ],
)  # fmt: skip
def test_the_newest_record_of_a_key_counts(sent, expected):
    assert Reference(sent).rows(dict(enumerate(map(len, sent)))) == expected


def test_only_records_below_the_offsets_count():
    reference = Reference([[Change(1, 1, "a", 0), Change(1, 2, "b", 0)], [Change(3, 1, "c", 0)]])
    assert reference.rows({0: 1, 1: 0}) == [[1, 1, "a", False, 0, 0]]
    assert reference.rows({0: 2, 1: 1}) == [[1, 2, "b", False, 0, 1], [3, 1, "c", False, 1, 0]]
