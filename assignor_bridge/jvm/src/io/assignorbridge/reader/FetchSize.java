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
 * Size of one fetch of a partition, unless the user sets it: a share of the buffer for each partition
 * that is fetched at a time, and more if producers' batches are larger. A broker sends such a batch
 * whole if it is the first of a response, and no other partition with it. Why these numbers:
 * docs/internals/reader.md.
 */
final class FetchSize {
  private static final long MIN_BYTES = 32L << 10; // two of a producer's default batches
  private static final long MAX_BYTES = 1L << 20;
  private static final int FETCHES_PER_RANGE = 4; // at least: the last one exceeds the range's end
  private static final int LEAST_WIDTH = 8;
  private static final int ENOUGH_ANSWERS = 4;
  private static final int ANSWERS_TO_REMEMBER = 16;
  private static final int GROWTH = 4; // of fetches that are cut: seldom, and not far beyond

  private final Map<String, Object> params;
  private final long bufferBytes;
  private final boolean isUsers;
  private long bytes;
  private boolean batchesAreLarge;

  // Of the last polls: brokers' answers, what they weighed, and how many partitions they were of.
  private long answers;
  private long answeredBytes;
  private long visits;
  private Set<TopicPartition> lastPolled = Set.of();
  private boolean first; // they are a client's first answers: all partitions were asked for

  FetchSize(Map<String, Object> params, long bufferBytes, int partitions) {
    this.params = params;
    this.bufferBytes = bufferBytes;
    isUsers = params.containsKey(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG);
    bytes =
        isUsers
            ? number(params, ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG)
            : shareOfBuffer(partitions);
  }

  /** The consumer's parameters with what they leave open. */
  Map<String, Object> params() {
    Map<String, Object> all = new HashMap<>(params);
    all.putIfAbsent(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, "5");
    all.putIfAbsent(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "2000");
    all.putIfAbsent(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, Long.toString(bytes));
    all.putIfAbsent(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, Long.toString(bufferBytes));
    all.putIfAbsent(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false");
    return all;
  }

  /** The most partitions that may be fetched at a time. */
  int width() {
    return (int) clamp(bufferBytes / Math.max(bytes, 1), LEAST_WIDTH, Integer.MAX_VALUE);
  }

  /**
   * Grows if few long ranges are fetched at a time, since each fetch waits for a round trip. It does
   * not if the task has many short ranges, too: larger fetches leave room for few partitions at a time.
   *
   * @param partitions number of partitions that are fetched at a time
   * @param expectedBytes bytes that the rest of the first range takes on the network
   * @param rangeBytes expected sizes of all ranges that are read together
   * @return whether it grew
   */
  boolean fitWindow(int partitions, long expectedBytes, long[] rangeBytes) {
    long share = bufferBytes / Math.max(2L * partitions, LEAST_WIDTH);
    long wanted = Math.min(share, expectedBytes / FETCHES_PER_RANGE);
    if (isUsers || wanted < GROWTH * bytes) {
      return false;
    }
    long shortRanges = Arrays.stream(rangeBytes).filter(one -> one < wanted).count();
    if (shortRanges > 2 * bufferBytes / wanted) {
      return false;
    }
    bytes = wanted;
    return true;
  }

  /** Shrinks if many more partitions are to be fetched at a time than before; whether it did. */
  boolean fitPartitions(int partitions) {
    if (isUsers || batchesAreLarge || bytes <= MIN_BYTES || bytes * partitions <= 2 * bufferBytes) {
      return false;
    }
    bytes = shareOfBuffer(partitions);
    return true;
  }

  /**
   * Grows if each response held one partition: a single large batch, or, if it is the first of a
   * client that requested all of them, one cut at the limit, which is how a broker before Kafka 4.2
   * responds from its remote tier. If the partitions are no more than the responses, all of them
   * may have been in each, which looks alike.
   *
   * @param fetched partitions that are fetched at a time
   * @return whether it grew
   */
  boolean fitBatches(Collection<PartitionPosition> fetched) {
    boolean isTelling = answers >= ENOUGH_ANSWERS && fetched.size() > answers + 1;
    if (isUsers || !isTelling || visits > answers + 1) {
      return false;
    }
    long batch = answeredBytes / answers;
    long enough =
        Math.min(2 * Long.highestOneBit(batch), Math.max(MAX_BYTES, bufferBytes / LEAST_WIDTH));
    if (batch > bytes + bytes / 8 && enough > bytes) {
      batchesAreLarge = true;
      bytes = enough;
      return true;
    }
    if (first
        && bytes < MAX_BYTES
        && batch > bytes / 2
        && fetched.stream().anyMatch(one -> lastPolled.contains(one.partition))) {
      bytes = Math.min(GROWTH * bytes, MAX_BYTES);
      return true;
    }
    return false;
  }

  /**
   * Notes one poll: the answers and bytes that came with it, and the partitions whose records it
   * gave; a large answer is given by several polls.
   */
  void note(long newAnswers, long newBytes, Set<TopicPartition> partitions) {
    if (answers >= ANSWERS_TO_REMEMBER) {
      forget(false);
    }
    answers += newAnswers;
    answeredBytes += newBytes;
    visits += partitions.stream().filter(one -> !lastPolled.contains(one)).count();
    lastPolled = Set.copyOf(partitions); // a view would keep the records
  }

  /** Another client begins, with nothing fetched. */
  void restart() {
    forget(true);
  }

  private void forget(boolean restarts) {
    first = restarts;
    answers = 0;
    answeredBytes = 0;
    visits = 0;
    lastPolled = Set.of(); // else answers of the same many partitions would count as of none
  }

  private long shareOfBuffer(int partitions) {
    return clamp(bufferBytes / Math.max(partitions, 1), MIN_BYTES, MAX_BYTES);
  }

  /** A setting as Kafka itself reads it: a number, or a text with spaces around it. */
  static int number(Map<String, Object> params, String name) {
    return (Integer) ConfigDef.parseType(name, params.get(name), ConfigDef.Type.INT);
  }

  static long clamp(long value, long low, long high) {
    return Math.min(Math.max(value, low), high);
  }
}
