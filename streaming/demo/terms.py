"""Definitions of the figures on the demo's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.report.terms import FIGURES

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Each name of a figure on the page contains one of these terms.
TERMS: Mapping[str, str] = {
    "Spark's mapping": FIGURES["Spark's mapping"],
    "lag-aware-sticky": (
        "The option's usual assignor: it divides the offsets of a batch so that all slots should "
        "end at once, and keeps partitions where they were read."
    ),
    "took turns": (
        "Two queries of one job ran on the same executors and read the same records, batch by "
        "batch. The one that goes first alternates."
    ),
    "warm-up": "The first batches of both queries. They are checked, but are in no figure.",
    "cheap records of equal cost": (
        "Flights of about the same size that are only parsed and summed. Most of a batch is then "
        "Delta's commit and Spark's scheduling, which no mapping changes."
    ),
    "more each": "Work for each record, as a call of a service would be: the task sleeps.",
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
    "Records of each slot": "Records read by each executor/slot after the warm-up; dashed: mean.",
    "When each slot worked": (
        "Start and duration of each reading task in one batch, by Spark's status store; 0 is the "
        "start of the first task."
    ),
    "Records of each partition": "Records written to each partition, with those of the warm-up.",
    "Seconds of each batch": "From trigger to commit, by Spark's progress.",
    "each flight is in Delta exactly once": (
        "Flights are numbered. The table has as many numbers as were written, all different, from "
        "0 to the last."
    ),
    "flights and delays by carrier are right": (
        "The table's sums equal those that plain Python computes from the data file."
    ),
    "the tasks read each flight once": "Records read by all tasks equal the records written.",
    "every batch was planned": (
        "The progress of each batch names the assignor, and counts no fallback to Spark's mapping."
    ),
    "Spark's own mapping ran": "No batch's progress has a metric of the option.",
    "both read the same batches": "Each batch has the same number of records in both queries.",
    "nothing is left running": "Spark and its executors ended when they were stopped.",
    "Machine": "As Python sees it. Broker, driver, executors, and this program share the cores.",
    "Executors": "Processes of Spark. A slot is room for one task at a time.",
    "Whole demo": "From the start to the end of Spark; the first time it fetches packages, too.",
}
