"""Sum up the stages by condition, and compare them with what Spark's source leads to expect."""

from __future__ import annotations

from dataclasses import fields
from itertools import groupby
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from tests.lab.tails.placement import Placement, sum_placements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONDITION = ("spark", "executors_per_host", "state", "locality_wait_s", "marking")
#: Slots that the second job holds, each of which has a head.
HELD_SLOTS = 2
_FIGURES = [field.name for field in fields(Placement)]


def summarize_stages(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per condition, with the rounds added up."""
    summaries = []
    for condition, of_condition in _group(rows, CONDITION):
        stages = [Placement(**{name: row[name] for name in _FIGURES}) for row in of_condition]
        total = sum_placements(stages)
        summaries.append(
            dict(zip(CONDITION, condition, strict=True))
            | {
                "stages": len(stages),
                "heads": total.heads,
                "held_heads": HELD_SLOTS * len(stages) if condition[2] == "busy" else 0,
                "moved_heads": total.moved_heads,
                "moved_before_the_last_tail": total.moved_before_tails,
                "tails": total.tails,
                "tails_out_of_order": total.tails_out_of_order,
                "idle_share_while_tails_remained": round(total.idle_s / total.slot_s, 3),
                "longest_idle_s": total.longest_gap_s,
                "stage_s_median": round(median(stage.stage_s for stage in stages), 2),
            }
        )
    return summaries


def summarize_costs(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per Spark and number of locations, with the means of the rounds."""
    names = ("read_locations_s", "add_pending_s", "first_offer_s", "offer_ms", "driver_mb")
    return [
        {"spark": spark, "locations_per_tail": locations, "rounds": len(of_condition)}
        | {name: round(fmean(row[name] for row in of_condition), 3) for name in names}
        for (spark, locations), of_condition in _group(rows, ("spark", "locations"))
    ]


def find_contradictions(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the conditions that contradict the findings of `tests.lab.tails`.

    Only orders of launches are compared, which do not depend on the speed of the machine:

    1. If tails list all executors (B), no head moves while a tail remains.
    2. If tails have no location (A), none does on hosts of one executor.
    3. On hosts of three executors, heads of a busy executor do move under A, before the tails.
    """
    contradictions = []
    for row in summaries:
        moved, marking = row["moved_before_the_last_tail"], row["marking"]
        shares_host = row["executors_per_host"] == "three"
        must_stay = marking == "B" or (marking == "A" and not shares_host)
        must_move = marking == "A" and shares_host and row["state"] == "busy"
        if (must_stay and moved) or (must_move and not moved):
            condition = ", ".join(f"{name} {row[name]}" for name in CONDITION)
            contradictions.append(f"{condition}: {moved} of {row['heads']} heads moved")
    return contradictions


def _group(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> list[tuple[tuple[Any, ...], list[Mapping[str, Any]]]]:
    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    return [(condition, list(group)) for condition, group in groupby(sorted(rows, key=key), key)]
