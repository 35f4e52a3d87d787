"""Define the figures on the demo's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.report.terms import FIGURES

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Each row of the table contains one of these terms.
TERMS: Mapping[str, str] = {
    "Spark's default": FIGURES["Spark's default"],
    "lag-aware-sticky": (
        "The recommended assignor: it divides the offsets of a batch so that all slots should "
        "finish at the same time, and keeps partitions on the executors that read them before."
    ),
    "median batch": "Seconds from trigger to commit in Spark's progress, median of the batches.",
    "median reading": (
        "Seconds from the start of a batch's first reading task to the end of its last one in "
        "Spark's UI, median of the batches."
    ),
    "age of newest row": (
        "Seconds from writing a batch's last record to the topic until its commit, "
        "including up to 0.2 s until the query's next trigger; median of the batches."
    ),
    "age of oldest row": "The same, measured from the write of the batch's first record.",
    "busiest slot": (
        "Records or seconds of the busiest slot divided by the mean of all slots, including idle "
        "ones; mean of the batches. The planner balances seconds, so records may differ."
    ),
    "tasks per batch": "Tasks that read records, mean of the batches.",
    "partitions split": "Partitions that the planner divided among several tasks of a batch.",
    "partitions moved": (
        "Partitions that the planner gave to another executor than before. Spark's default has no "
        "such figure, but moves all partitions when the number of executors changes."
    ),
    "offsets moved": (
        "Share of a batch's offsets that were read by another executor than their partition's "
        "previous one, including parts of split partitions; mean of the batches."
    ),
    "prediction error": (
        "Share of the reported reading seconds that the plan had expected in other ranges or on "
        "other executors; mean of the batches."
    ),
    "locality hits": "Share of reading tasks that ran on their preferred executor.",
    "Machine": "As reported by Python. The broker, driver, executors, and demo share its cores.",
    "Executors": "Spark's worker processes. A slot runs one task at a time.",
    "JVM options": (
        "Options of the driver and the executors in both modes. They make a short run start "
        "faster; a real job does not need them."
    ),
    "Whole demo": "Seconds of the whole run, including downloads on the first run.",
}
