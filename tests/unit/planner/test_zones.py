"""Metrics and reasons about zones, when a move pays, and invalid racks."""

from __future__ import annotations

import hashlib
import json

import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor, OffsetRange
from assignor_bridge.options import parse_options
from streaming.human_json.json_input import InputError
from streaming.human_json.snapshots import parse_snapshot
from tests.support.packed import pack_snapshot
from tests.support.planner_process import plan as plan_of_worker
from tests.support.planning import Observation, Snapshot, plan
from tests.support.strategies_snapshots import find_head_and_tail, generate_lags


def snapshot(
    executors: dict[str, str | None], ranges: dict[int, tuple[int, str]], **options: object
) -> Snapshot:
    """Return a snapshot of executors with racks, and partitions with sizes and racks (letters)."""
    return Snapshot(
        tuple(Executor(e, f"h-{e}", 1, rack=rack) for e, rack in executors.items()),
        tuple(OffsetRange("t", p, 0, size) for p, (size, _) in ranges.items()),
        {f"assignor.{name}": str(value) for name, value in options.items()},
        racks=tuple(frozenset(racks) for _, racks in ranges.values()),
    )


THREE = {"1": "a", "2": "b", "3": "c"}


@pytest.mark.parametrize(
    ("executors", "ranges", "share", "said"),
    [
        pytest.param(THREE, {0: (100, "a"), 1: (100, "b"), 2: (100, "c")}, 0.0,
                     ["0.0% of the data read crosses zones (3 racks with executors)"], id="even"),
        pytest.param(THREE, {0: (150, "ab"), 1: (100, "bc"), 2: (50, "c")}, 0.0,
                     ["0.0% of the data read crosses zones"], id="even with cuts"),
        pytest.param(THREE, dict.fromkeys(range(3), (100, "a")), 0.65,
                     ["at least 65.0% must cross zones: 100% of the work is near only to executors "
                      "in rack a, which have 33% of the total speed: add executors there, or "
                      "replicas near other executors"], id="all leaders in one zone"),
        pytest.param({"1": "a", "2": "b"}, {0: (100, "a"), 1: (100, "b"), 2: (100, "c")}, 1 / 3,
                     ["33.3% of the work has replicas only in rack c, where no executors run: "
                      "add executors there, or replicas in racks with executors"],
                     id="a zone without executors"),
        pytest.param({"1": "a", "2": "B"}, {0: (100, "a"), 1: (100, "b")}, 0.5,
                     ["executors run in rack B, where no replica is known"], id="a typo"),
        pytest.param({"1": "a", "2": None}, {0: (100, "a"), 1: (100, "b")}, 0.0,
                     ["executors without a rack are treated as near to all"],
                     id="an unknown executor"),
        pytest.param({"1": "a", "2": "b"}, {0: (100, "a"), 1: (100, "")}, 0.0,
                     ["50% of the work has replicas in unknown racks"], id="an unknown partition"),
        pytest.param({"1": None, "2": None}, {0: (100, "a"), 1: (100, "b")}, 0.0,
                     ["no executor has a rack: all are treated as near to every partition"],
                     id="no executor is known"),
        pytest.param({str(i): f"z{i}" for i in range(9)}, dict.fromkeys(range(9), (90, "a")), 1.0,
                     ["zones are not used: executors form 9 zones, the maximum is 8"],
                     id="too many zones"),
    ],
)  # fmt: skip
def test_cross_zone_share_and_reasons(executors, ranges, share, said):
    made = plan(snapshot(executors, ranges))
    assert made.metrics["predictedCrossZoneShare"] == pytest.approx(share, abs=0.005)
    assert made.metrics["imbalance"] <= 0.05 + 1e-6
    for text in said:
        assert any(text in reason for reason in made.reasons), (text, made.reasons)
    to_change = [r for r in made.reasons if "add executors there" in r or "no partition has" in r]
    assert set(to_change) <= set(made.metrics.get("zoneAdvice", "").split("; "))


@pytest.mark.parametrize(
    ("bytes_a_record", "price", "moves"),
    [
        pytest.param(1000, 0.02, True, id="100 KB cost more than a cold consumer"),
        pytest.param(100, 0.02, False, id="10 KB do not"),
        pytest.param(100, 0.2, True, id="at another price they do"),
        pytest.param(1000, 0, False, id="without a price nothing moves"),
    ],
)
def test_a_move_to_a_near_zone_must_pay(bytes_a_record, price, moves):
    """Racks are known from the second batch on; before, each executor reads the far partition."""
    executors = {"1": None, "2": None}
    first = plan(snapshot(executors, {0: (100, ""), 1: (100, "")}))
    at = {p: head for (_, p), (head, _) in find_head_and_tail(first).items()}
    held = {0: "a" if at[0] == "2" else "b", 1: "a" if at[1] == "2" else "b"}
    second = snapshot({"1": "a", "2": "b"}, {p: (100, held[p]) for p in held}, zonePricePerGb=price)
    seen = tuple(Observation("t", p, at[p], 100, 100 * bytes_a_record, 0.0) for p in at)
    made = plan(Snapshot(second.executors, second.ranges, second.options, seen, first.state,
                         racks=second.racks))  # fmt: skip
    assert made.metrics["movedPartitions"] == (2 if moves else 0)
    assert made.metrics["crossZoneOffsets"] == (0 if moves else 200)


@pytest.mark.parametrize("split", [True, False])
def test_a_reassignment_moves_only_the_reassigned_partitions(split):
    """A partition follows its replicas to another zone, and another one moves back in exchange."""
    sizes = {p: (1000, "ab"[p % 2]) for p in range(12)}
    first = plan(snapshot({"1": "a", "2": "b"}, sizes, split=split))
    assert first.metrics["crossZoneOffsets"] == 0
    swapped = sizes | {0: (1000, "b"), 1: (1000, "a")}
    given = snapshot({"1": "a", "2": "b"}, swapped, split=split)
    second = plan(Snapshot(given.executors, given.ranges, given.options, state=first.state,
                           racks=given.racks))  # fmt: skip
    assert second.metrics["crossZoneOffsets"] == 0
    assert second.metrics["movedPartitions"] == 2


def test_a_far_zone_reads_the_tail_and_the_near_zone_keeps_the_range():
    """Also in later batches, and if the far executor owned the range before."""
    ranges = {0: (600, "a"), 1: (300, "a"), 2: (100, "ab")}
    before = plan(snapshot({"2": None}, ranges))
    state, seen = before.state, []
    assert {task.executor for task in before.tasks} == {"2"}
    for _ in range(4):
        given = snapshot({"1": "a", "2": "b"}, ranges)
        made = plan(Snapshot(given.executors, given.ranges, state=state, racks=given.racks))
        state = made.state
        pieces = sorted((r, task.executor) for task in made.tasks for r in task.ranges)
        seen.append([(str(r), e) for r, e in pieces if r.size not in (600, 300, 100)])
        moved = made.metrics["movedPartitions"]
    [(head, near), (tail, far)] = seen[0]
    assert (head.startswith("t-0[0,"), tail.endswith(",600)")) == (True, True)
    assert (near, far) == ("1", "2")
    assert (seen[1:], moved) == (seen[:-1], 0)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "uniform", "range", "lag-aware"])
def test_other_assignors_report_what_crosses_zones(name):
    given = snapshot(THREE, {p: (100, "abc"[(p // 2) % 3]) for p in range(12)})
    made = plan(Snapshot(given.executors, given.ranges, {"assignor": name}, racks=given.racks))
    assert (made.metrics["crossZoneOffsets"] == 0) == (name != "lag-aware")


ROWS = {
    "executors": [{"id": "1", "host": "h", "rack": "a"}, {"id": "2", "host": "h", "rack": "b"}],
    "ranges": [
        {"topic": "t", "partition": 0, "start": 0, "end": 9, "racks": ["a"]},
        {"topic": "t", "partition": 1, "start": 0, "end": 9, "racks": ["b"]},
    ],
}


def test_a_request_with_racks():
    answer = plan_of_worker({**ROWS, "options": {"assignor": "lag-aware-sticky"}})
    assert answer["metrics"]["crossZoneOffsets"] == 0
    assert [t["ranges"][0]["partition"] for t in answer["tasks"]] == [0, 1]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        pytest.param({"range": "AgAAAAAAAAA="}, OptionError,
                     "racks.range has 2: expected -1 or an index in 'sets', which has length 2",
                     id="no such set"),
        pytest.param({"range": "/v///wAAAAA="}, OptionError, "racks.range has -2",
                     id="below unknown"),
        pytest.param({"range": "AAAAAA=="}, OptionError,
                     "racks.range has length 1: expected 2, one number per row",
                     id="too few"),
        pytest.param({"range": "AAA="}, OptionError, "racks.range ends within a number", id="cut"),
        pytest.param({"sets": ["a"]}, InputError, r"`\$.racks.sets\[0\]`", id="a name"),
    ],
)  # fmt: skip
def test_inconsistent_racks_are_refused(change, error, message):
    columns = pack_snapshot(ROWS)
    columns["racks"] |= change
    with pytest.raises(error, match=message):
        parse_snapshot(columns)


def test_rows_contain_their_racks():
    with pytest.raises(InputError, match="unknown key 'racks'"):
        parse_snapshot({**ROWS, "racks": {"sets": [], "range": ""}})
    halves = [ROWS["ranges"][0], {**ROWS["ranges"][0], "start": 9, "end": 12, "racks": ["b"]}]
    with pytest.raises(OptionError, match="ranges of t-0 have different racks"):
        parse_snapshot({**ROWS, "ranges": halves})


def test_a_price_is_a_number_from_0():
    for text in ("-1", "nan", "free"):
        with pytest.raises(OptionError, match="a number from 0 to 1000 is expected"):
            parse_options({"assignor.zonePricePerGb": text})


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("lag-aware-sticky", "7586a5c619a48324"),
        ("sticky", "0bac7472a6453abd"),
        ("cooperative-sticky", "0bac7472a6453abd"),
        ("range", "7b86abe8719bb4a2"),
    ],
)
def test_without_racks_plans_have_not_changed(name, digest):
    """Digests of earlier versions' tasks; racks of executors alone change nothing."""
    seen = hashlib.sha256()
    for seed, shape in enumerate(["zipf-0.8", "zipf-1.2", "lognormal", "uniform"]):
        state = None
        for step in range(3):
            executors = tuple(
                Executor(str(i), f"h{i // 2}", 1 + i % 3, rack=f"r{i % 3}" if seed % 2 else None)
                for i in range(8 - step)
            )
            sizes = generate_lags(shape, 90, 40_000, seed=step)
            asked = tuple(OffsetRange(f"t{p % 2}", p // 2, 0, size) for p, size in enumerate(sizes))
            made = plan(Snapshot(executors, asked, {"assignor": name}, state=state))
            state = made.state
            rows = [(t.executor, t.slot, *map(str, t.ranges)) for t in made.tasks]
            seen.update(json.dumps([rows, made.metrics["imbalance"]]).encode())
    assert seen.hexdigest()[:16] == digest
