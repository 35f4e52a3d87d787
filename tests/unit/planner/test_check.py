"""The check of plans detects and names each kind of error."""

from __future__ import annotations

import numpy as np
import pytest

from assignor_bridge.errors import PlanError
from assignor_bridge.model import OffsetRange
from assignor_bridge.planner.pieces import Pieces
from assignor_bridge.planner.verify import check_plan
from tests.support.planning import Snapshot, to_batch

ASKED = Snapshot((), (OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 0, 5)), parallelism=2)
GOOD = [(0, 10, 15, 0), (0, 15, 20, 1), (1, 0, 5, 1)]


def verdict(rows, tasks=(0, 1, 1), count=2):
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    check_plan("mine", to_batch(ASKED), Pieces(*columns), np.array(tasks, np.int64), count)


def test_a_plan_that_tiles_the_ranges_passes_in_any_order():
    verdict(GOOD)
    verdict(GOOD[::-1], tasks=(1, 1, 0))


@pytest.mark.parametrize(
    ("rows", "tasks", "count", "message"),
    [
        pytest.param(GOOD[:2], (0, 1), 2, r"t-1 offsets 0 to 4 is missing", id="a range lost"),
        pytest.param([], (), 0, "is missing", id="nothing read"),
        pytest.param([(0, 10, 14, 0), *GOOD[1:]], (0, 1, 1), 2,
                     "t-0 offsets 10 to 19 loses offsets 14 to 14", id="a gap"),
        pytest.param([(0, 10, 16, 0), *GOOD[1:]], (0, 1, 1), 2,
                     "repeats offsets 15 to 15", id="an overlap"),
        pytest.param([(0, 9, 15, 0), *GOOD[1:]], (0, 1, 1), 2, "starts at 9", id="an early start"),
        pytest.param([(0, 11, 15, 0), *GOOD[1:]], (0, 1, 1), 2, "loses offsets", id="a late start"),
        pytest.param([*GOOD[:2], (1, 0, 4, 1)], (0, 1, 1), 2, "ends at 4 instead of 5", id="short"),
        pytest.param([*GOOD[:2], (1, 0, 6, 1)], (0, 1, 1), 2, "ends at 6 instead of 5", id="long"),
        pytest.param([*GOOD, (1, 5, 5, 1)], (0, 1, 1, 1), 2, "an empty piece", id="empty piece"),
        pytest.param([*GOOD, (2, 0, 5, 1)], (0, 1, 1, 1), 2, "not requested", id="invented range"),
        pytest.param(GOOD, (0, 1, 1), 3, "planned an empty task", id="empty task"),
    ],
)  # fmt: skip
def test_each_invalid_plan_is_refused_with_its_reason(rows, tasks, count, message):
    with pytest.raises(PlanError, match=message):
        verdict(rows, tasks, count)
