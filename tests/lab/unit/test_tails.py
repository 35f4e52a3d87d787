"""The figures of heads and tails: moved heads, the order of tails, idle slots, and findings."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.lab.tails.capped import compare_caps, simulate_stage
from tests.lab.tails.findings import find_contradictions, summarize_costs, summarize_stages
from tests.lab.tails.markings import MARKINGS, Slot, mark_tasks, spread_numbers
from tests.lab.tails.placement import LaunchedTask, Placement, measure_placement, sum_placements
from tests.lab.tails.table import create_table

SLOTS = [Slot(f"h{number // 6}", str(number // 2)) for number in range(12)]


def launch(*tasks: tuple[int, str, int, int]) -> list[LaunchedTask]:
    """Return tasks of an index, an executor, and a time, in the order of their launches."""
    return [
        LaunchedTask(index, number, executor, "ANY", start, end)
        for number, (index, executor, start, end) in enumerate(tasks)
    ]


@pytest.mark.parametrize("marking", MARKINGS)
def test_heads_have_the_lowest_indices_and_tails_become_smaller(marking: str) -> None:
    tasks = mark_tasks(SLOTS, marking)
    heads, tails = tasks[:12], tasks[12:]
    assert [task.locations for task in heads] == [(slot.location,) for slot in SLOTS]
    assert [task.ms for task in heads] == [1500] + [300] * 11
    assert [task.ms for task in tails] == sorted((task.ms for task in tails), reverse=True)
    assert len(tails) == 48


def test_each_marking_lists_its_locations() -> None:
    listed = {marking: mark_tasks(SLOTS, marking)[12].locations for marking in MARKINGS}
    assert listed == {
        "A": (),
        "B": tuple(f"executor_h{n // 3}_{n}" for n in range(6)),
        "B3": ("executor_h0_0", "executor_h0_1", "executor_h0_2"),
        "C": ("executor_h0_0", "executor_h0_1", "executor_h0_2"),
        "D": ("h0", "h1"),
    }


@pytest.mark.parametrize("executors", [1, 2, 6, 7, 100])
@pytest.mark.parametrize("max_locations", [1, 3, 16])
def test_each_executor_is_on_equally_many_lists(executors: int, max_locations: int) -> None:
    lists = [spread_numbers(tail, executors, max_locations) for tail in range(3 * executors)]
    assert {len(set(numbers)) for numbers in lists} == {min(executors, max_locations)}
    counts = Counter(number for numbers in lists for number in numbers)
    assert set(counts.values()) == {3 * min(executors, max_locations)}


def test_a_moved_head_is_counted_as_early_if_a_tail_was_still_to_come() -> None:
    tasks = launch(
        (0, "a", 0, 1000), (3, "b", 0, 1000), (1, "a", 1000, 2000), (2, "b", 1000, 1500),
        (4, "b", 1500, 2000),
    )  # fmt: skip
    placement = measure_placement(tasks, ["a", "b", "a"], {"a": 1, "b": 1})
    assert (placement.heads, placement.moved_heads, placement.moved_before_tails) == (3, 2, 1 + 1)
    late = launch((0, "a", 0, 9), (2, "b", 0, 9), (1, "a", 9, 12))
    placement = measure_placement(late, ["a", "b"], {"a": 1, "b": 1})
    assert (placement.moved_heads, placement.moved_before_tails) == (1, 0)


def test_tails_are_out_of_order_after_a_higher_index() -> None:
    tasks = launch(
        *((index, "a", 10 * at, 10 * at + 10) for at, index in enumerate([0, 2, 1, 4, 3]))
    )
    assert measure_placement(tasks, ["a"], {"a": 1}).tails_out_of_order == 2


def test_idle_slots_are_counted_until_the_last_tail_and_without_the_other_job() -> None:
    tasks = launch((0, "a", 0, 400), (1, "b", 0, 100), (2, "a", 1000, 5000))
    placement = measure_placement(tasks, ["a", "b"], {"a": 1, "b": 1})
    assert (placement.slot_s, placement.idle_s) == (2.0, 0.6 + 0.9)
    assert (placement.longest_gap_s, placement.stage_s) == (0.9, 5.0)
    [holder] = launch((0, "b", 50, 800))
    held = measure_placement(tasks, ["a", "b"], {"a": 1, "b": 2}, [holder])
    assert held.idle_s == pytest.approx(0.6 + 2 * 1.0 - 0.1 - 0.75)


def test_a_gap_lasts_as_long_as_any_slot_of_the_executor_is_idle() -> None:
    tasks = launch((0, "a", 0, 500), (1, "a", 0, 300), (2, "a", 800, 900), (3, "a", 900, 1000))
    assert measure_placement(tasks, ["a", "a"], {"a": 2}).longest_gap_s == 0.6


def test_stages_add_up_but_the_longest_gap_is_the_longest() -> None:
    one = Placement(12, 2, 1, 48, 3, 10.0, 1.0, 0.5, 2.0)
    assert sum_placements([one, one]) == Placement(24, 4, 2, 96, 6, 20.0, 2.0, 0.5, 4.0)


def row(marking: str, per_host: str, state: str, moved: int) -> dict[str, Any]:
    figures = Placement(12, moved, moved, 48, 0, 10.0, 1.0, 0.5, 2.0).to_dict()
    condition = {"spark": "4.0.4", "executors_per_host": per_host, "state": state,
                 "locality_wait_s": 3, "marking": marking, "round": 0}  # fmt: skip
    return condition | figures


def test_findings_are_contradicted_by_heads_that_move_or_stay_unexpectedly() -> None:
    expected = [
        row("A", "three", "busy", 2), row("A", "one", "busy", 0), row("B", "three", "busy", 0),
        row("D", "three", "busy", 2), row("D", "three", "idle", 0),
    ]  # fmt: skip
    assert find_contradictions(summarize_stages(expected)) == []
    unexpected = [
        row("A", "three", "busy", 0),
        row("A", "one", "busy", 1),
        row("B", "one", "idle", 1),
    ]
    assert len(find_contradictions(summarize_stages(unexpected))) == 3


def test_rounds_are_summed_by_condition() -> None:
    rows = [row("A", "three", "busy", 2) | {"round": number} for number in range(3)]
    [summary] = summarize_stages(rows)
    assert (summary["stages"], summary["heads"], summary["moved_heads"]) == (3, 36, 6)
    assert summary["idle_share_while_tails_remained"] == 0.1
    costs = [
        {"spark": "4.2.0", "locations": 8, "round": n, "read_locations_s": 0.1, "add_pending_s": n,
         "first_offer_s": 0.2, "offer_ms": 1.0, "driver_mb": 10, "launched": 7000}
        for n in (1, 2)
    ]  # fmt: skip
    [cost] = summarize_costs(costs)
    assert (cost["locations_per_tail"], cost["add_pending_s"]) == (8, 1.5)


def test_the_table_has_a_line_per_marking_with_moved_heads_and_idle_slots() -> None:
    rows = [
        row("A", "three", "busy", 2), row("A", "one", "busy", 0), row("A", "one", "joined", 0),
        row("B", "one", "busy", 0) | {"locality_wait_s": 0, "idle_s": 5.0},
    ]  # fmt: skip
    lines = create_table(summarize_stages(rows)).splitlines()
    assert len(lines) == 2 + len(MARKINGS)
    assert lines[2] == "| A: none | 0 of 2 | 2 of 2 | 10% | 10% |"
    assert lines[3] == "| B: all executors | 0 of 2 | 0 of 0 | 0% | 0% |"  # only without a wait


def test_a_cap_of_locations_costs_the_less_the_higher_it_is() -> None:
    assert simulate_stage([0.5, 0.5], [0.5, 0.5], 2) == 1.0
    over = compare_caps(50, (1, 4, 16, 50), range(2))
    assert over[1] > over[4] >= over[50] == 1.0
