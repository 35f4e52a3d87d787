"""Definitions of the figures on the demo's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.report.terms import FIGURES

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Each row of the table contains one of these terms.
TERMS: Mapping[str, str] = {
    "Spark's default": FIGURES["Spark's default"],
    "lag-aware-sticky": (
        "The option's usual assignor: it divides the offsets of a batch so that all slots should "
        "end at once, and keeps partitions where they were read."
    ),
    "median batch": "Seconds from trigger to commit, by Spark's progress, median of the batches.",
    "median reading": (
        "Seconds from the start of a batch's first reading task to the end of its last one, by "
        "Spark's status store, median of the batches."
    ),
    "age of newest row": (
        "Seconds from writing a batch's last record to the topic until its commit, with up to "
        "0.2 s until the query looks, median of the batches."
    ),
    "age of oldest row": "The same from writing a batch's first record.",
    "busiest slot": (
        "Records or seconds of the busiest slot over the mean of all slots, idle ones too, mean of "
        "the batches. The planner evens out seconds, so records may differ."
    ),
    "tasks per batch": "Tasks that read records, mean of the batches.",
    "partitions split": "Partitions that several tasks read in the same batch, by the planner.",
    "partitions moved": (
        "Partitions that another executor than before began to read, by the planner. Spark's "
        "mapping reports none: it moves all when the number of executors changes."
    ),
    "offsets moved": (
        "Share of a batch's offsets that another executor read than the one that had their "
        "partition before; tails of split partitions are included. Mean of the batches."
    ),
    "prediction error": (
        "Share of the reported reading seconds that the plan before had expected in other ranges "
        "or on other executors, mean of the batches."
    ),
    "locality hits": "Share of reading tasks that ran on the executor that they preferred.",
    "Machine": "As Python sees it. Broker, driver, executors, and this program share the cores.",
    "Executors": "Processes of Spark. A slot is room for one task at a time.",
    "JVM options": (
        "Options of the driver and the executors in both modes. They make a short run start "
        "faster; a real job does not need them."
    ),
    "Whole demo": "From the start to the end of Spark; the first time it fetches packages, too.",
}
