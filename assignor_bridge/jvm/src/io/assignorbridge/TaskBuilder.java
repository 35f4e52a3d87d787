package io.assignorbridge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import scala.Option;

/** Builds the tasks of a plan out of Spark's own partitions, once the plan has proved to tile them. */
final class TaskBuilder {
  private final Map<TopicPartition, KafkaBatchInputPartition> templates = new HashMap<>();
  private final List<PlanVerifier.Range> owed = new ArrayList<>();

  TaskBuilder(InputPartition[] partitions) {
    for (InputPartition partition : partitions) {
      KafkaBatchInputPartition p = (KafkaBatchInputPartition) partition;
      KafkaOffsetRange r = p.offsetRange();
      templates.put(r.topicPartition(), p);
      owed.add(new PlanVerifier.Range(r.topic(), r.partition(), r.fromOffset(), r.untilOffset()));
    }
  }

  /** What the batch must read. */
  List<PlanVerifier.Range> owed() {
    return owed;
  }

  InputPartition[] build(
      List<PlanJson.Task> tasks, List<ExecutorList.Slots> executors, String stream, long plan)
      throws PlannerException {
    List<PlanVerifier.Range> planned = new ArrayList<>(owed.size());
    tasks.forEach(task -> planned.addAll(task.ranges()));
    PlanVerifier.verify(owed, planned);
    Map<String, String> locations = new HashMap<>();
    executors.forEach(e -> locations.put(e.id(), e.location()));
    InputPartition[] made = new InputPartition[tasks.size()];
    for (int i = 0; i < made.length; i++) {
      PlanJson.Task task = tasks.get(i);
      if (task.ranges().isEmpty()) {
        throw new PlannerException("the plan holds a task without ranges (number " + i + ")");
      }
      made[i] =
          new AssignedInputPartition(
              stream,
              plan,
              i,
              task.executor(),
              task.slot(),
              task.ranges().stream().map(this::part).toArray(KafkaBatchInputPartition[]::new),
              preferred(task, locations));
    }
    return made;
  }

  private static String[] preferred(PlanJson.Task task, Map<String, String> locations)
      throws PlannerException {
    List<String> wanted = new ArrayList<>(task.standbys());
    if (task.executor() != null) {
      wanted.add(0, task.executor());
    }
    String[] preferred = new String[wanted.size()];
    for (int i = 0; i < preferred.length; i++) {
      preferred[i] = locations.get(wanted.get(i));
      if (preferred[i] == null) {
        throw new PlannerException(
            "the plan names executor '" + wanted.get(i) + "', there are: " + locations.keySet());
      }
    }
    return preferred;
  }

  /** Spark's own partition, cut to the planned range: its Kafka parameters and checks come along. */
  private KafkaBatchInputPartition part(PlanVerifier.Range range) {
    KafkaBatchInputPartition template =
        templates.get(new TopicPartition(range.topic(), range.partition()));
    return template.copy(
        new KafkaOffsetRange(
            template.offsetRange().topicPartition(), range.start(), range.end(), Option.empty()),
        template.executorKafkaParams(),
        template.pollTimeoutMs(),
        template.failOnDataLoss(),
        template.includeHeaders());
  }
}
