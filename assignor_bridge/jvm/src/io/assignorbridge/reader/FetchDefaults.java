package io.assignorbridge.reader;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;

/**
 * Consumer settings for bounded reads, used where the user set none, and what consumers may hold.
 * Why each: docs/reader.md.
 *
 * @param bufferBytes how many bytes one consumer may have under way for the ranges it reads; the
 *     same again of what it keeps, and of what Kafka's client holds of partitions that wait
 * @param idleBytes how many bytes all idle consumers of this JVM may hold together
 */
record FetchDefaults(long bufferBytes, long idleBytes) {
  static final int MAX_POLL_RECORDS = 2000;

  private static final long MIN_BUFFER_BYTES = 16L << 20;
  private static final long MAX_BUFFER_BYTES = 64L << 20;
  private static final long MIN_PARTITION_BYTES = 32L << 10; // two of a producer's default batches
  private static final long MAX_PARTITION_BYTES = 1L << 20;
  private static final int LEAST_SHARES = 4;
  private static final int LEAST_WIDTH = 8;

  /** An eighth of the heap for idle consumers, and another one shared by the task slots. */
  static FetchDefaults of(long heapBytes, int slots) {
    long idle = heapBytes / 8;
    return new FetchDefaults(
        clamp(idle / Math.max(slots, LEAST_SHARES), MIN_BUFFER_BYTES, MAX_BUFFER_BYTES), idle);
  }

  /** What one partition may bring in one fetch, so that all of them together fit the buffer. */
  long partitionBytes(int partitions) {
    return clamp(bufferBytes / Math.max(partitions, 1), MIN_PARTITION_BYTES, MAX_PARTITION_BYTES);
  }

  /** The same for a producer's batches of this size, a whole one of which has to fit. */
  long partitionBytesFor(long batchBytes) {
    return Math.min(
        2 * Long.highestOneBit(batchBytes), Math.max(MAX_PARTITION_BYTES, bufferBytes / LEAST_WIDTH));
  }

  /** How many partitions may be fetched at a time. */
  int width(long partitionBytes) {
    return (int) clamp(bufferBytes / Math.max(partitionBytes, 1), LEAST_WIDTH, Integer.MAX_VALUE);
  }

  /** Whether a consumer that was made for few partitions would fetch too few of so many at a time. */
  boolean tooLarge(long partitionBytes, int partitions) {
    return partitionBytes > MIN_PARTITION_BYTES && partitionBytes * partitions > 2 * bufferBytes;
  }

  /** Spark's executor parameters with what they leave open. */
  Map<String, Object> applyTo(Map<String, Object> params, long partitionBytes) {
    Map<String, Object> all = new HashMap<>(params);
    all.putIfAbsent(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, "5");
    all.putIfAbsent(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, Integer.toString(MAX_POLL_RECORDS));
    all.putIfAbsent(
        ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, Long.toString(partitionBytes));
    all.putIfAbsent(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, Long.toString(bufferBytes));
    all.putIfAbsent(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false");
    return all;
  }

  private static long clamp(long value, long low, long high) {
    return Math.min(Math.max(value, low), high);
  }
}
