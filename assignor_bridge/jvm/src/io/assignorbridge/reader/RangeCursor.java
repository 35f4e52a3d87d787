package io.assignorbridge.reader;

import java.util.ArrayDeque;
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

  /** Who has yet to receive records of the range. */
  enum State {
    PENDING,
    READING,
    RECEIVED,
    /** Spark's reader continues at {@link #rest}, behind the received records. */
    HANDED_OVER
  }

  /** Place of the range in its task's plan. */
  final int index;

  final KafkaBatchInputPartition range;
  final TopicPartition partition;
  final long start;
  final long until;

  /** Records that were received and not yet given to Spark, by offset. */
  final ArrayDeque<Chunk> chunks = new ArrayDeque<>();

  /** Heap that {@link #chunks} take while an earlier range of the task is read. */
  long heldBytes;

  State state = State.PENDING;

  /** First offset that Spark's reader reads, if the range is handed over. */
  long rest;

  long records;
  long bytes;
  long nanos;

  /** Kafka's timestamps, in milliseconds, of the oldest and the newest record that was read. */
  long oldest = Long.MAX_VALUE;

  long newest = Long.MIN_VALUE;

  /** Offsets that were deleted before they were read (failOnDataLoss=false). */
  long lost;

  RangeCursor(int index, KafkaBatchInputPartition range) {
    this.index = index;
    this.range = range;
    KafkaOffsetRange offsets = range.offsetRange();
    this.partition = offsets.topicPartition();
    this.start = offsets.fromOffset();
    this.until = offsets.untilOffset();
    this.rest = start;
  }

  /** Leaves the offsets from {@code offset} on to Spark's reader. */
  void handOver(long offset) {
    rest = offset;
    state = State.HANDED_OVER;
  }

  /** Notes a record's timestamp; Kafka has -1 if there is none. */
  void stamp(long timestamp) {
    if (timestamp >= 0) {
      oldest = Math.min(oldest, timestamp);
      newest = Math.max(newest, timestamp);
    }
  }

  /** Spark's own partition of the offsets from {@link #rest} on. */
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
