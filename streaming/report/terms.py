"""Definitions of the figures on the pages of `assignor report` and `assignor estimate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FIGURES: Mapping[str, str] = {
    "ideal": (
        "The reading time if all slots finish at the same moment and partitions can be split "
        "anywhere. No plan can read the batch faster on these slots."
    ),
    "regret": "How much longer than the ideal a batch takes, given the actual cost of its records.",
    "measured": "Computed from the times that executors or Spark's UI reported.",
    "predicted": (
        "Computed from each partition's records and their cost, which the planner learned, you "
        "gave, or the replay estimated."
    ),
    "Spark's default": (
        "Spark without an assignor or minPartitions: one task per partition, on an executor chosen "
        "by a hash of the topic and partition."
    ),
    "saves a batch": (
        "Mean reading time saved per batch, compared with Spark's default. It is an upper bound "
        "if the cost of a record was estimated from batch durations."
    ),
    "worst batch": "The largest regret of any batch.",
    "moved": "Share of the partitions that left their executor although it was still present.",
}
