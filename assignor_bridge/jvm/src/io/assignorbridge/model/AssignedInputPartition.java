package io.assignorbridge.model;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import scala.Option;

/**
 * One task of a plan: the ranges it reads, in order, and where it should run.
 *
 * @param stream name under which executors keep the stream's consumers between micro-batches
 * @param plan number of the plan within the stream's run, from 1
 * @param index position of this task in its plan
 * @param executor id of the executor that the planner chose; null for a tail task, or if any
 *     executor may run the task
 * @param slot number of the slot on that executor, from 0; -1 for a tail task, which any free slot
 *     takes
 * @param ranges Spark's own partitions, one per range, which carry the Kafka parameters, poll
 *     timeout, failOnDataLoss, and includeHeaders
 * @param preferredLocations Spark's location strings, in order of preference
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

  /** Returns a Spark partition cut to the range; its Kafka parameters and checks are kept. */
  public static KafkaBatchInputPartition cut(KafkaBatchInputPartition partition, long start, long end) {
    return partition.copy(
        new KafkaOffsetRange(partition.offsetRange().topicPartition(), start, end, Option.empty()),
        partition.executorKafkaParams(),
        partition.pollTimeoutMs(),
        partition.failOnDataLoss(),
        partition.includeHeaders());
  }
}
