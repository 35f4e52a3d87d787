package io.assignorbridge.reader;

import io.assignorbridge.model.AssignedInputPartition;
import java.util.ArrayDeque;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;

/** One range of a task while it is read: its offsets, received records, and cost so far. */
final class RangeCursor {
  /** Consecutive records of one range, polled or kept, ready to be handed to Spark. */
  record Chunk(RangeCursor cursor, List<ConsumerRecord<byte[], byte[]>> records) {}

  enum State {
    PENDING,
    READING,
    RECEIVED,
    /** Spark's reader continues at {@link #handedOverFrom}, after the received records. */
    HANDED_OVER
  }

  final int index; // in the task's `ranges`
  final KafkaBatchInputPartition sparkPartition;
  final TopicPartition partition;
  final long start;
  final long end;

  /** Received chunks that Spark has not started to read, in offset order. */
  final ArrayDeque<Chunk> chunks = new ArrayDeque<>();

  long heldBytes; // heap bytes of `chunks` while an earlier range of the task is read
  State state = State.PENDING;
  long handedOverFrom; // first offset for Spark's reader, if the range is handed over
  long recordCount;
  long bytes; // of keys and values; 0 for rows from Spark's reader
  long nanos; // spent on the range, including work downstream of the reader
  long coldNanos; // of these, the wait for the first records if the consumer was elsewhere
  boolean waitsCold; // no record has arrived, and the consumer was not at the range's start
  long oldestMillis = Long.MAX_VALUE; // smallest Kafka timestamp of the records read
  long newestMillis = Long.MIN_VALUE; // largest Kafka timestamp of the records read
  long lostOffsets; // deleted before they were read (failOnDataLoss=false)

  RangeCursor(int index, KafkaBatchInputPartition sparkPartition) {
    this.index = index;
    this.sparkPartition = sparkPartition;
    KafkaOffsetRange offsets = sparkPartition.offsetRange();
    this.partition = offsets.topicPartition();
    this.start = offsets.fromOffset();
    this.end = offsets.untilOffset();
    this.handedOverFrom = start;
  }

  /** Hands the range over to Spark's reader, from {@code offset} on. */
  void handOver(long offset) {
    handedOverFrom = offset;
    state = State.HANDED_OVER;
  }

  /** Updates the oldest and newest timestamps; ignores -1, Kafka's value for no timestamp. */
  void addTimestamp(long timestamp) {
    if (timestamp >= 0) {
      oldestMillis = Math.min(oldestMillis, timestamp);
      newestMillis = Math.max(newestMillis, timestamp);
    }
  }

  /** Returns Spark's own partition for the offsets that are handed over. */
  KafkaBatchInputPartition handedOverPart() {
    return handedOverFrom == start
        ? sparkPartition
        : AssignedInputPartition.cut(sparkPartition, handedOverFrom, end);
  }

  @Override
  public String toString() {
    return partition + " [" + start + ", " + end + ")";
  }
}
