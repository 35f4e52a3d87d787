package io.assignorbridge.reader;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;

/**
 * Consumer settings for bounded reads, used where the user set none. Why each: docs/reader.md.
 *
 * @param bufferBytes how many bytes one consumer may hold of what it fetched ahead
 */
record FetchDefaults(long bufferBytes) {
  static final int MAX_POLL_RECORDS = 2000;

  private static final long MIN_BUFFER_BYTES = 16L << 20;
  private static final long MAX_BUFFER_BYTES = 64L << 20;
  private static final long MIN_PARTITION_BYTES = 32L << 10; // two of a producer's default batches
  private static final long MAX_PARTITION_BYTES = 1L << 20;

  /** A 32nd of the heap for each consumer, within 16 and 64 MiB. */
  static FetchDefaults forHeap(long heapBytes) {
    return new FetchDefaults(clamp(heapBytes / 32, MIN_BUFFER_BYTES, MAX_BUFFER_BYTES));
  }

  /** What one partition may bring in one fetch, so that all of them together fit the buffer. */
  long partitionBytes(int partitions) {
    return clamp(bufferBytes / Math.max(partitions, 1), MIN_PARTITION_BYTES, MAX_PARTITION_BYTES);
  }

  /** Whether a consumer that was made for few partitions would hold too much with so many. */
  boolean tooLarge(long partitionBytes, int partitions) {
    return partitionBytes > MIN_PARTITION_BYTES && partitionBytes * partitions > 2 * bufferBytes;
  }

  /** Spark's executor parameters with what they leave open. */
  Map<String, Object> applyTo(Map<String, Object> params, int partitions) {
    Map<String, Object> all = new HashMap<>(params);
    all.putIfAbsent(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, "5");
    all.putIfAbsent(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, Integer.toString(MAX_POLL_RECORDS));
    all.putIfAbsent(
        ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, Long.toString(partitionBytes(partitions)));
    all.putIfAbsent(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, Long.toString(bufferBytes));
    all.putIfAbsent(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false");
    return all;
  }

  private static long clamp(long value, long low, long high) {
    return Math.min(Math.max(value, low), high);
  }
}
