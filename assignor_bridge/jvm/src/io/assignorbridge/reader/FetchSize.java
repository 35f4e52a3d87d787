package io.assignorbridge.reader;

import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Chooses the fetch size per partition, unless the user sets it: first, its share of the buffer;
 * more for few long ranges or large producer batches (a broker sends such a batch alone); less for
 * many partitions. docs/internals/reader.md explains the constants.
 */
final class FetchSize {
  private static final long MIN_FETCH_BYTES = 32L << 10; // two producer batches of the default size
  private static final long MAX_FETCH_BYTES = 1L << 20; // except for long ranges and large batches
  private static final int MIN_FETCHES_PER_RANGE = 4; // the last fetch exceeds the range
  private static final int MIN_PARTITIONS = 8; // that can be fetched at a time
  private static final int MIN_SAMPLED_RESPONSES = 4;
  private static final int MAX_SAMPLED_RESPONSES = 16;
  private static final int GROWTH_FACTOR = 4; // at least for long ranges, exactly for a remote tier

  private final Map<String, Object> params;
  private final long bufferBytes;
  private final boolean isSetByUser;
  private long fetchBytes;
  private boolean hasLargeBatches;
  private long responseCount; // in the sampled polls
  private long responseBytes; // size of these responses
  private long partitionChanges; // how often a polled partition was not in the previous poll
  private Set<TopicPartition> lastPolledPartitions = Set.of();
  private boolean areFirstResponses; // whether the samples are a client's first
  FetchSize(Map<String, Object> params, long bufferBytes, int partitionCount) {
    this.params = params;
    this.bufferBytes = bufferBytes;
    isSetByUser = params.containsKey(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG);
    fetchBytes =
        isSetByUser
            ? parseInt(params, ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG)
            : computeBufferShare(partitionCount);
  }

  /** Returns the consumer's parameters, with defaults for parameters that are not set. */
  Map<String, Object> params() {
    Map<String, Object> allParams = new HashMap<>(params);
    allParams.putIfAbsent(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, "5");
    allParams.putIfAbsent(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "2000");
    allParams.putIfAbsent(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, Long.toString(fetchBytes));
    allParams.putIfAbsent(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, Long.toString(bufferBytes));
    allParams.putIfAbsent(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false");
    return allParams;
  }

  int maxPartitions() {
    return (int) clamp(bufferBytes / Math.max(fetchBytes, 1), MIN_PARTITIONS, Integer.MAX_VALUE);
  }

  /**
   * Increases the size if few long ranges are fetched at a time, to save round trips. Keeps it if
   * the task also has many short ranges, because fewer of them would fit in the buffer.
   *
   * @param partitionCount number of partitions fetched at a time
   * @param expectedBytes expected network bytes of the first range's remaining records
   * @param rangeBytes expected heap bytes of the ranges that are read at a time
   * @return whether the size changed
   */
  boolean fitWindow(int partitionCount, long expectedBytes, long[] rangeBytes) {
    long shareBytes = bufferBytes / Math.max(2L * partitionCount, MIN_PARTITIONS);
    long newFetchBytes = Math.min(shareBytes, expectedBytes / MIN_FETCHES_PER_RANGE);
    if (isSetByUser || newFetchBytes < GROWTH_FACTOR * fetchBytes) {
      return false;
    }
    long shortRangeCount = Arrays.stream(rangeBytes).filter(size -> size < newFetchBytes).count();
    if (shortRangeCount > 2 * bufferBytes / newFetchBytes) {
      return false;
    }
    fetchBytes = newFetchBytes;
    return true;
  }

  /** Decreases the size if all fetches together exceed twice the buffer; returns whether it did. */
  boolean fitPartitions(int partitionCount) {
    if (isSetByUser
        || hasLargeBatches
        || fetchBytes <= MIN_FETCH_BYTES
        || fetchBytes * partitionCount <= 2 * bufferBytes) {
      return false;
    }
    fetchBytes = computeBufferShare(partitionCount);
    return true;
  }

  /**
   * Increases the size if each response held only one partition. Either the producers' batches are
   * large, or, in a client's first responses, a broker before Kafka 4.2 cut a remote-tier fetch at
   * the limit. With few partitions, the samples are inconclusive: a response may hold all.
   *
   * @param fetchedPartitions partitions fetched at a time
   * @return whether the size changed
   */
  boolean fitBatches(Collection<PartitionPosition> fetchedPartitions) {
    boolean isConclusive = responseCount >= MIN_SAMPLED_RESPONSES && fetchedPartitions.size() > responseCount + 1;
    if (isSetByUser || !isConclusive || partitionChanges > responseCount + 1) {
      return false;
    }
    long bytesPerResponse = responseBytes / responseCount;
    long newFetchBytes =
        Math.min(
            2 * Long.highestOneBit(bytesPerResponse),
            Math.max(MAX_FETCH_BYTES, bufferBytes / MIN_PARTITIONS));
    if (bytesPerResponse > fetchBytes + fetchBytes / 8 && newFetchBytes > fetchBytes) {
      hasLargeBatches = true;
      fetchBytes = newFetchBytes;
      return true;
    }
    if (areFirstResponses
        && fetchBytes < MAX_FETCH_BYTES
        && bytesPerResponse > fetchBytes / 2
        && fetchedPartitions.stream().anyMatch(p -> lastPolledPartitions.contains(p.partition))) {
      fetchBytes = Math.min(GROWTH_FACTOR * fetchBytes, MAX_FETCH_BYTES);
      return true;
    }
    return false;
  }

  /** Adds a poll to the samples. Several polls may return the records of one large response. */
  void addPoll(long newResponses, long newBytes, Set<TopicPartition> partitions) {
    if (responseCount >= MAX_SAMPLED_RESPONSES) {
      resetSamples(false);
    }
    responseCount += newResponses;
    responseBytes += newBytes;
    partitionChanges += partitions.stream().filter(p -> !lastPolledPartitions.contains(p)).count();
    lastPolledPartitions = Set.copyOf(partitions); // a view would keep the records in memory
  }

  /** Discards the samples for a new client. */
  void resetSamples() {
    resetSamples(true);
  }

  private void resetSamples(boolean isNewClient) {
    areFirstResponses = isNewClient;
    responseCount = 0;
    responseBytes = 0;
    partitionChanges = 0;
    lastPolledPartitions = Set.of(); // so that every polled partition counts as a change
  }

  private long computeBufferShare(int partitionCount) {
    return clamp(bufferBytes / Math.max(partitionCount, 1), MIN_FETCH_BYTES, MAX_FETCH_BYTES);
  }

  /** Parses an integer setting like Kafka, which also accepts surrounding spaces. */
  static int parseInt(Map<String, Object> params, String name) {
    return (Integer) ConfigDef.parseType(name, params.get(name), ConfigDef.Type.INT);
  }

  static long clamp(long value, long low, long high) {
    return Math.min(Math.max(value, low), high);
  }
}
