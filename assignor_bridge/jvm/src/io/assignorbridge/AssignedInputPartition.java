package io.assignorbridge;

import java.io.InvalidObjectException;
import java.io.Serializable;
import java.util.List;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import scala.Option;

/**
 * One task of a plan: the ranges that it reads, in this order, and where it should run.
 *
 * @param stream identity of the stream, stable between its micro-batches: names cached consumers
 * @param plan number of the plan within the stream (rises by one per new plan)
 * @param index position of this task in its plan
 * @param executor id of the executor that the planner chose, or null when it left the choice open
 * @param slot number of the slot on that executor, from 0
 * @param ranges Spark's own partitions, one a range; they carry Kafka parameters, poll timeout,
 *     failOnDataLoss and includeHeaders, which are the same for all
 * @param preferredLocations Spark's location strings, most wanted first
 */
public record AssignedInputPartition(
    String stream,
    long plan,
    int index,
    String executor,
    int slot,
    KafkaBatchInputPartition[] ranges,
    String[] preferredLocations)
    implements InputPartition {

  /** Spark's own partition for other offsets: its Kafka parameters and checks come along. */
  public static KafkaBatchInputPartition of(
      KafkaBatchInputPartition any, TopicPartition partition, long start, long end) {
    return any.copy(
        new KafkaOffsetRange(partition, start, end, Option.empty()),
        any.executorKafkaParams(),
        any.pollTimeoutMs(),
        any.failOnDataLoss(),
        any.includeHeaders());
  }

  private AssignedInputPartition with(KafkaBatchInputPartition... others) {
    return new AssignedInputPartition(
        stream, plan, index, executor, slot, others, preferredLocations);
  }

  /** Many small objects take Java longer to send than a reader to read them. */
  private Object writeReplace() {
    if (ranges.length < 2) {
      return this;
    }
    List<PlanVerifier.Range> all =
        Stream.of(ranges)
            .map(KafkaBatchInputPartition::offsetRange)
            .map(r -> new PlanVerifier.Range(r.topic(), r.partition(), r.fromOffset(), r.untilOffset()))
            .toList();
    return new Packed(with(ranges[0]), Columns.Ranges.of(all));
  }

  private record Packed(AssignedInputPartition first, Columns.Ranges ranges)
      implements Serializable {
    private Object readResolve() throws InvalidObjectException {
      KafkaBatchInputPartition any = first.ranges[0];
      try {
        return first.with(
            ranges.unpack().stream()
                .map(r -> of(any, new TopicPartition(r.topic(), r.partition()), r.start(), r.end()))
                .toArray(KafkaBatchInputPartition[]::new));
      } catch (PlannerException e) {
        throw new InvalidObjectException(e.getMessage());
      }
    }
  }
}
