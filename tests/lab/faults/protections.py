"""The protection against each fault, as lines of one file; `tests.lab.faults.without` removes them.

Where Kafka's client or Spark protects a query, the lines are the settings that it has for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.lab.faults import clocks

if TYPE_CHECKING:
    from pathlib import Path

_JAVA = "assignor_bridge/jvm/src/io/assignorbridge"


@dataclass(frozen=True)
class Protection:
    """Lines of one file that are replaced, and the faults that must fail then."""

    name: str
    file: str
    old: str
    new: str
    kinds: tuple[str, ...]

    def without(self, root: Path) -> str:
        """Return the file of a project as it is without them, which must be there once."""
        text = (root / self.file).read_text(encoding="utf-8")
        assert text.count(self.old) == 1, f"{self.name}: {self.file} has not these lines once"
        return text.replace(self.old, self.new)

    def take_out(self, root: Path) -> None:
        """Edit the file of a copy of the project."""
        (root / self.file).write_text(self.without(root), encoding="utf-8")


#: No fault needs it: what must fail without it is `tests/support/row_order_driver.py`.
PLAN_ORDER = Protection(
    "records that arrive early wait for their turn",
    f"{_JAVA}/reader/OrderedRanges.java",
    "    return remainingRanges.peek();\n",
    "    return remainingRanges.stream().filter(range -> !range.chunks.isEmpty()).findFirst()\n"
    "        .orElse(remainingRanges.peek());\n",
    (),
)
PROTECTIONS = {
    one.name: one
    for one in (
        Protection(
            "a batch without a plan is read by Spark's mapping",
            "tests/lab/faults/scene.py",
            '"assignor.commitGroup": self.group.name}',
            '"assignor.commitGroup": self.group.name, "assignor.onError": "fail"}',
            ("planner stopped",),
        ),
        Protection(
            "a planner that has died is started again",
            f"{_JAVA}/worker/SharedPlanner.java",
            "if (initializedProcess == null || !initializedProcess.isAlive()) {",
            "if (initializedProcess == null) {",
            ("planner killed",),
        ),
        Protection(
            "offsets that are gone are left to Spark's reader",
            f"{_JAVA}/reader/SharedReader.java",
            "hasProgress = "
            "handOver(pooledConsumer, e.offsetOutOfRangePartitions().keySet(), e.getMessage());",
            "throw e;",
            ("retention ahead of the reader",),
        ),
        Protection(
            "a consumer that does not stand where a range begins looks it up",
            f"{_JAVA}/reader/PartitionPosition.java",
            "return keptFrom != UNKNOWN && keptFrom <= offset && offset <= position;",
            "return keptFrom != UNKNOWN;",
            ("planner stopped",),
        ),
        Protection(
            "a batch that was not completed when the query ended is not committed",
            f"{_JAVA}/planning/BatchPlanner.java",
            "    if (resources != null) {\n      resources.close();\n",
            "    if (resources != null) {\n      if (lastBatch != null) {\n"
            "        resources.complete(lastBatch.end());\n      }\n      resources.close();\n",
            ("table disk full", "checkpoint disk full", "checkpoint read-only"),
        ),
        Protection(
            "executors are looked at anew for each batch",
            f"{_JAVA}/cluster/Zones.java",
            "    return ExecutorList.listExecutors(context, executorRacks);\n  }\n",
            "    if (first == null) {\n"
            "      first = ExecutorList.listExecutors(context, executorRacks);\n    }\n"
            "    return first;\n  }\n\n  private List<Executor> first;\n",
            ("executor killed", "worker killed", "worker stopped"),
        ),
        Protection(
            "commits of the group do not wait by a clock that jumps",
            f"{_JAVA}/kafka/GroupCommits.java",
            "    long nowNanos = System.nanoTime();\n"
            "    if (!end.equals(lastEnd) || nowNanos - lastSubmitNanos >= REPEAT_NANOS) {",
            "    long nowNanos = System.currentTimeMillis() * 1_000_000;\n"
            "    if (nowNanos - lastSubmitNanos >= REPEAT_NANOS) {",
            (clocks.NAME,),
        ),
        Protection(
            "after a state that could not be written, the next one is tried",
            f"{_JAVA}/state/StateFiles.java",
            "    newestNumber++; // also after a failure",
            "    if (isFailing) {\n      return;\n    }\n"
            "    newestNumber++; // also after a failure",
            ("state disk full",),
        ),
        Protection(
            "Kafka's client waits and asks again",
            "tests/lab/faults/scene.py",
            '"kafka.request.timeout.ms": "10000", "kafka.default.api.timeout.ms": "60000"',
            '"kafka.request.timeout.ms": "700", "kafka.default.api.timeout.ms": "700"',
            (
                "silent network",
                "narrow network",
                "slow network",
                "broker stopped",
                "9,900 of 10,000 partitions empty",
            ),
        ),
        Protection(
            "other brokers have copies of the partitions",
            "tests/lab/faults/run.py",
            'config = {**_TOPIC, "min.insync.replicas": "2", **kind.config}\n'
            "    cluster.create_topic(name, kind.partitions, 3, config, kind.replicas)",
            'config = {**_TOPIC, "min.insync.replicas": "1", **kind.config}\n'
            "    cluster.create_topic(name, kind.partitions, 1, config, kind.replicas)",
            ("broker killed", "broker disk full"),
        ),
        Protection(
            "executors wait for a driver that does not answer",
            "tests/support/spark_tools.py",
            '.config("spark.locality.wait", "10s")',
            '.config("spark.executor.heartbeatInterval", "1s")\n'
            '        .config("spark.executor.heartbeat.maxFailures", "3")',
            ("driver stopped",),
        ),
        Protection(
            "Kafka's client connects again",
            "tests/lab/faults/scene.py",
            '"kafka.request.timeout.ms": "10000", "kafka.default.api.timeout.ms": "60000"',
            '"kafka.reconnect.backoff.ms": "900000", "kafka.reconnect.backoff.max.ms": "900000"',
            (
                "connections cut",
                "connections half closed",
                "slow network, connections cut",
                "brokers restarted one by one",
            ),
        ),
        Protection(
            "records of aborted transactions are left out, as the query asks",
            f"{_JAVA}/reader/SharedReader.java",
            "    Map<String, Object> params = partition.executorKafkaParams();\n",
            "    Map<String, Object> params = new HashMap<>(partition.executorKafkaParams());\n"
            '    params.put("isolation.level", "read_uncommitted");\n',
            ("open transactions",),
        ),
        Protection(
            "an offset without a record is no loss",
            f"{_JAVA}/reader/PartitionPosition.java",
            "    updateBytesPerOffset(heapBytes, end - position);\n",
            "    if (records.get(0).offset() != position) {\n"
            '      throw new IllegalStateException("there is no " + position);\n    }\n'
            "    updateBytesPerOffset(heapBytes, end - position);\n",
            ("compaction ahead of the reader",),
        ),
        Protection(
            "a log that has become shorter takes the group back with it",
            f"{_JAVA}/kafka/GroupCommits.java",
            "new OffsetAndMetadata(offset)",
            "new OffsetAndMetadata((Long) System.getProperties()\n"
            "              .merge(p, offset, (a, b) -> (Long) a > (Long) b ? a : b))",
            ("unclean election", "topic made anew", "topic made anew, failOnDataLoss=false"),
        ),
        Protection(
            "none; the checks are not told what nobody can read",
            "tests/lab/faults/logs.py",
            "    harm.loses({p: range(ends[p], read[p]) for p in read}, era=1)\n",
            "",
            ("unclean election, not seen",),
        ),
        Protection(
            "partitions whose times say nothing go on in steps, and the slowest in any case",
            "assignor_bridge/admission/align.py",
            "    end[stays] = lag.start[stays]\n",
            "    end[stays] = lag.start[stays]\n    return AlignedEnds(end, {})\n",
            ("records of 1970 and of next year",),
        ),
    )
}


#: Faults that no line was found against which could be taken out, and why.
NOT_TAKEN_OUT = {
    "records of 1 MB": "brokers send the first batch of an answer however large it is (KIP-74)",
    "batches of 1 MB": "Kafka's consumer leaves out what is before its position in a batch",
    "partitions added": "Spark's own source finds them",
    "leaders change": "survived, too, when Kafka's client asks again after 15 minutes only: the "
    "broker that led names the new leader in its answer (KIP-951)",
    "records in a remote tier": "brokers serve them as others; without the tier they are deleted, "
    "which is another fault",
    "executor stopped": "survived, too, when Spark takes the executor for lost after 2.5 s and "
    "tries no task again: it runs elsewhere what the executor had not begun",
}
