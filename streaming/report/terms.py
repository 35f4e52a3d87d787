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
    "regret": "How far the time of a batch is above the ideal, given what its records really cost.",
    "measured": "Computed from the times that executors or Spark's UI reported.",
    "predicted": "Computed from the records of each partition and the costs the planner learned.",
    "Spark's default": (
        "Spark without the option: one task per partition, on an executor chosen by a hash of the "
        "topic and partition."
    ),
    "saves a batch": (
        "Reading time saved compared with Spark's default, as the mean over the batches. It is an "
        "upper bound if the cost of a record was estimated from the duration of the batches."
    ),
    "worst batch": "The largest regret of any batch.",
    "moved": "Share of a batch's partitions that a different executor reads than before.",
}
