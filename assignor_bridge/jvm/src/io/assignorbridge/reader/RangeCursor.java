package io.assignorbridge.reader;

import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import scala.Option;

/** One range of a task while it is read: what it must deliver and what it has cost so far. */
final class RangeCursor {
  /** Consecutive records of one range, polled or kept, ready to be handed to Spark. */
  record Chunk(RangeCursor cursor, List<ConsumerRecord<byte[], byte[]>> records) {}

  final KafkaBatchInputPartition range;
  final TopicPartition partition;
  final long start;
  final long until;

  /** Where Spark's reader goes on, if the range is left to it. */
  long rest;

  long records;
  long bytes;
  long nanos;

  /** Kafka's timestamps, in milliseconds, of the oldest and the newest record that was read. */
  long oldest = Long.MAX_VALUE;

  long newest = Long.MIN_VALUE;

  RangeCursor(KafkaBatchInputPartition range) {
    this.range = range;
    KafkaOffsetRange offsets = range.offsetRange();
    this.partition = offsets.topicPartition();
    this.start = offsets.fromOffset();
    this.until = offsets.untilOffset();
    this.rest = start;
  }

  /** Takes a record's timestamp in; Kafka says -1 where there is none. */
  void stamp(long timestamp) {
    if (timestamp >= 0) {
      oldest = Math.min(oldest, timestamp);
      newest = Math.max(newest, timestamp);
    }
  }

  /** Spark's own partition for what is left of the range. */
  KafkaBatchInputPartition restOfRange() {
    if (rest == start) {
      return range;
    }
    return range.copy(
        new KafkaOffsetRange(partition, rest, until, Option.empty()),
        range.executorKafkaParams(),
        range.pollTimeoutMs(),
        range.failOnDataLoss(),
        range.includeHeaders());
  }

  @Override
  public String toString() {
    return partition + " [" + start + ", " + until + ")";
  }
}
