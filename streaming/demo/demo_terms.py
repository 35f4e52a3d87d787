"""Define the terms on the demo's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.report.terms import FIGURES

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Each row of the comparison table contains one of these terms.
TERMS: Mapping[str, str] = {
    "Spark's default": FIGURES["Spark's default"],
    "lag-aware-sticky": (
        "The recommended assignor. It divides a batch's offsets so that all slots should finish at "
        "the same time, and keeps partitions on the executors that read them before."
    ),
    "median batch": "Median time of a batch from trigger to commit, as reported by Spark.",
    "median reading": (
        "Median time from the start of a batch's first reading task to the end of its last "
        "reading task, from Spark's UI."
    ),
    "age of newest row": (
        "Median time from the write of a batch's last record to the batch's commit. It includes up "
        "to 0.2 s until the query's next trigger."
    ),
    "age of oldest row": "Median time from the write of a batch's first record to the commit.",
    "busiest slot": (
        "Records or seconds of the busiest slot, divided by the mean of all slots (mean over the "
        "batches). The planner balances seconds, so the records may be less balanced."
    ),
    "tasks per batch": "Mean number of tasks that read records, per batch.",
    "partitions split": "Partitions divided among several tasks, summed over the batches.",
    "partitions moved": (
        "Partitions that moved to a different executor, as counted by the planner. Not reported "
        "for Spark's default, which moves them when executors join or leave."
    ),
    "offsets moved": "Mean share of a batch's offsets read by a different executor than before.",
    "prediction error": (
        "Sum of the differences between predicted and reported read times, divided by the total "
        "read time (mean over the batches)."
    ),
    "locality hits": "Share of reading tasks that ran on a preferred executor.",
    "Machine": "As reported by Python. The broker, driver, executors, and demo share the cores.",
    "Executors": "Spark's worker processes. A slot runs one task at a time.",
    "JVM options": (
        "Options of the driver and the executors in both modes. They shorten the start of a short "
        "run; a real job does not need them."
    ),
    "Whole demo": "Duration of the demo, including the downloads of a first run.",
}
