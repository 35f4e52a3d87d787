"""Definitions of the figures on the pages of a report and a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FIGURES: Mapping[str, str] = {
    "ideal": (
        "The time in which all slots end at once, if partitions could be cut anywhere. It is the "
        "least that reading a batch can take on these slots."
    ),
    "regret": "How far the time of a batch is above the ideal, in hindsight of what records cost.",
    "measured": "By the times that executors or Spark's UI reported.",
    "predicted": "By the records of each partition and the costs that the planner has learned.",
    "Spark's mapping": (
        "Spark without the option: one task for each partition, on an executor that a hash of "
        "topic and partition chooses."
    ),
    "saves a batch": (
        "Seconds of reading less than with Spark's mapping, mean of the batches; an upper bound if "
        "the cost of a record is bounded by the time that batches took."
    ),
    "worst batch": "The regret of the batch with the largest one.",
    "moved": "Partitions of a batch that another executor than before reads, as a share.",
}
