package io.assignorbridge.planning;

import io.assignorbridge.model.AssignedInputPartition;
import io.assignorbridge.model.Executor;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.worker.Columns;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;

/** Verifies a plan and builds its tasks from Spark's own partitions. */
final class TaskBuilder {
  private final Map<TopicPartition, KafkaBatchInputPartition> sparkPartitions = new HashMap<>();
  private final List<OffsetRange> requestedRanges = new ArrayList<>();

  TaskBuilder(InputPartition[] partitions) {
    for (InputPartition partition : partitions) {
      KafkaBatchInputPartition p = (KafkaBatchInputPartition) partition;
      KafkaOffsetRange r = p.offsetRange();
      sparkPartitions.put(r.topicPartition(), p);
      requestedRanges.add(
          new OffsetRange(r.topic(), r.partition(), r.fromOffset(), r.untilOffset()));
    }
  }

  List<OffsetRange> requestedRanges() {
    return requestedRanges;
  }

  InputPartition[] build(
      List<Columns.Task> tasks, List<Executor> executors, String stream, long plan)
      throws PlannerException {
    List<OffsetRange> plannedRanges = new ArrayList<>(requestedRanges.size());
    tasks.forEach(task -> plannedRanges.addAll(task.ranges()));
    PlanVerifier.verify(requestedRanges, plannedRanges);
    PlanVerifier.verifyTail(tasks);
    Map<String, String> hostByExecutor = new HashMap<>();
    executors.forEach(e -> hostByExecutor.put(e.id(), e.host()));
    InputPartition[] partitions = new InputPartition[tasks.size()];
    for (int i = 0; i < partitions.length; i++) {
      Columns.Task task = tasks.get(i);
      if (task.ranges().isEmpty()) {
        throw new PlannerException("task " + i + " of the plan has no ranges");
      }
      partitions[i] =
          new AssignedInputPartition(
              stream,
              plan,
              i,
              task.executor(),
              task.slot(),
              task.ranges().stream().map(this::cutPartition).toArray(KafkaBatchInputPartition[]::new),
              listPreferredLocations(task, hostByExecutor));
    }
    return partitions;
  }

  /**
   * Returns a task's preferred locations. Spark does not rank executors: the first free one gets
   * the task. Standbys are therefore hosts, which Spark uses only after waiting for the executor. A
   * tail task names executors. Without locations, or with hosts, it would let Spark move heads (the
   * other tasks) to another executor of their host (docs/internals/design.md).
   */
  private static String[] listPreferredLocations(
      Columns.Task task, Map<String, String> hostByExecutor) throws PlannerException {
    List<String> locations = new ArrayList<>();
    if (task.executor() != null) {
      locations.add(formatLocation(task.executor(), hostByExecutor));
    }
    if (task.tail() != null) {
      for (String executor : task.tail().executors()) {
        locations.add(formatLocation(executor, hostByExecutor));
      }
    }
    for (String standby : task.standbys()) {
      locations.add(findHost(standby, hostByExecutor));
    }
    return locations.toArray(String[]::new);
  }

  /** Returns an executor's location, as Spark's `ExecutorCacheTaskLocation` writes it. */
  private static String formatLocation(String executor, Map<String, String> hostByExecutor)
      throws PlannerException {
    return "executor_" + findHost(executor, hostByExecutor) + "_" + executor;
  }

  private static String findHost(String executor, Map<String, String> hostByExecutor)
      throws PlannerException {
    if (!hostByExecutor.containsKey(executor)) {
      throw new PlannerException(
          "the plan has the unknown executor '" + executor + "', which is not in the request");
    }
    return hostByExecutor.get(executor);
  }

  private KafkaBatchInputPartition cutPartition(OffsetRange range) {
    TopicPartition partition = new TopicPartition(range.topic(), range.partition());
    return AssignedInputPartition.cut(sparkPartitions.get(partition), range.start(), range.end());
  }
}
