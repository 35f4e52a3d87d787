"""What the figures on pages mean: of the demo, and of a report, a replay, and a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Of a report, a replay, and a simulation.
FIGURES: Mapping[str, str] = {
    "ideal": (
        "The time in which all slots end at once, if partitions could be cut anywhere. It is the "
        "least that reading a batch can take on these slots."
    ),
    "regret": "How far the time of a batch is above the ideal, in hindsight of what records cost.",
    "measured": "By the times that executors or Spark's UI reported.",
    "predicted": "By the records of each partition and the costs that the planner has learned.",
    "Spark's mapping": (
        "What Spark does without the option: one task for each partition, on an executor that a "
        "hash of topic and partition chooses."
    ),
    "slots": "Room for one task at a time each. Slot 2/0 is the first slot of executor 2.",
    "saves a batch": (
        "Seconds of reading less than with Spark's mapping, mean of the batches; at most so many "
        "if the cost of a record is bounded by the time that batches took."
    ),
    "worst batch": "The regret of the batch with the largest one.",
    "moved": "Partitions of a batch that another executor than before reads, as a share.",
    "cold": "Partitions that an executor begins to read anew: its consumer has nothing fetched.",
}

#: Definition by term, as the page's texts write it; each figure's name has one of them in it.
TERMS: Mapping[str, str] = {
    "Spark's mapping": (
        "What Spark does without the option: each partition is one task, and a hash of topic and "
        "partition chooses its executor."
    ),
    "lag-aware-sticky": (
        "The option's usual assignor: it divides the offsets of a batch so that all slots should "
        "end at once, and keeps partitions where they were read."
    ),
    "took turns": (
        "Two queries of the same job run in one Spark session, on the same executors, each with "
        "its own topic, checkpoint and table. Records are written to the topic of the one; when "
        "its batch is committed, the same to that of the other. Who goes first alternates."
    ),
    "warm-up": (
        "The first batches of both queries: JVMs compile, consumers connect, the planner learns. "
        "They are checked like all others, but left out of all figures."
    ),
    "cheap records of equal cost": (
        "Flights as they are: about the same size, with nothing to do but parse and sum up. "
        "Most of a batch is then Delta's commit and Spark's scheduling, which no mapping changes."
    ),
    "more each": (
        "Work for each record, as a look-up in a service would be: the task sleeps, so that slots "
        "do not compete for this machine's cores."
    ),
    "median batch": (
        "Seconds from a batch's trigger to its commit, by Spark's progress: planning, reading, "
        "work, writing to Delta, commit. Median of the batches after the warm-up."
    ),
    "median reading": (
        "Seconds from the start of a batch's first reading task to the end of its last one, by "
        "Spark's status store. Median of the batches."
    ),
    "age of newest row": (
        "Freshness: seconds from writing a batch's last record to the topic until the batch is "
        "committed. It includes up to 0.2 s until the query looks. Median of the batches."
    ),
    "age of oldest row": (
        "Seconds from writing a batch's first record to the topic until the batch is committed: no "
        "row of the batch took longer. Median of the batches."
    ),
    "busiest slot": (
        "What the slot with most of it read (records) or worked (seconds) in a batch, over the "
        "mean of all slots, idle ones too; 1.00 is perfectly even. Mean of the batches. The "
        "planner evens out the seconds that it expects, so that noise in them shows in the records."
    ),
    "tasks per batch": "Tasks that read records, by Spark's status store. Mean of the batches.",
    "partitions split": (
        "Partitions that several tasks read in the same batch, by the planner. Sum of the batches. "
        "Spark's mapping never splits one."
    ),
    "partitions moved": (
        "Partitions that another executor than before began to read, by the planner. Sum of the "
        "batches. Spark's mapping reports none: it moves all when the number of executors changes."
    ),
    "offsets moved": (
        "Share of a batch's offsets that another executor read than the one that had their "
        "partition before, by the planner; tails of split partitions count. Mean of the batches."
    ),
    "prediction error": (
        "Share of the reported reading seconds that the plan before had expected in other ranges "
        "or on other executors. Mean of the batches. Spark's mapping predicts nothing."
    ),
    "locality hits": (
        "Share of reading tasks that ran on the executor that they preferred, by Spark's status "
        "store (PROCESS_LOCAL)."
    ),
    "Records of each slot": (
        "Records that the tasks of each executor slot (named executor/slot) read after the "
        "warm-up. The dashed line is the mean."
    ),
    "When each slot worked": (
        "Start and duration of each reading task in one batch, the same records for both, by "
        "Spark's status store; 0 is the start of the first task."
    ),
    "Records of each partition": "Records that were written to each partition, the warm-up too.",
    "Seconds of each batch": (
        "From trigger to commit, by Spark's progress, of each batch; the first of each pair began "
        "first in batches of even number."
    ),
    "each flight is in Delta exactly once": (
        "Flights are numbered. Spark counts the numbers in the table: as many as were written, all "
        "different, from 0 to the last."
    ),
    "flights and delays by carrier are right": (
        "The table's sums equal those that plain Python computes from the data file."
    ),
    "the tasks read each flight once": (
        "Records read by all tasks, by Spark's status store, equal those written: none was read "
        "in vain."
    ),
    "every batch was planned": (
        "The progress of each batch names the assignor, and counts no fallback to Spark's mapping."
    ),
    "Spark's own mapping ran": "No batch's progress has a metric of ours.",
    "both read the same batches": "Each batch has the same number of records in both queries.",
    "nothing is left running": "Spark and its executors ended when they were asked to.",
    "Machine": (
        "As Python sees it. Broker, driver, executors and this program share the cores, so that "
        "work of the processor cannot run on all slots at once."
    ),
    "Executors": "Processes of Spark. A slot is room for one task at a time.",
    "Whole demo": "From the start to the end of Spark; the first time it fetches packages, too.",
}
