package io.assignorbridge.reader;

import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * Notices that a producer's batches are larger than what is asked for of a partition. A broker sends
 * such a batch whole when it is the first of an answer, and nothing of any other partition with it.
 */
final class LoneAnswers {
  private static final int ENOUGH = 4;
  private static final int FORGOTTEN_AFTER = 16;

  private Set<TopicPartition> before = Set.of();
  private long answers;
  private long bytes;
  private long visits;

  /**
   * Notes one poll.
   *
   * @param answers brokers' answers that came with it
   * @param bytes what came over the network with it
   * @param partitions whose records it gave; a large answer is given by several polls
   */
  void add(long answers, long bytes, Set<TopicPartition> partitions) {
    if (this.answers >= FORGOTTEN_AFTER) {
      forget();
    }
    this.answers += answers;
    this.bytes += bytes;
    visits += partitions.stream().filter(one -> !before.contains(one)).count();
    before = Set.copyOf(partitions); // a view would keep the records
  }

  /** The mean size of batches that are larger than {@code asked}; 0 when they are not. */
  long largeBatchBytes(long asked) {
    boolean lone = answers >= ENOUGH && visits <= answers + 1;
    return lone && bytes / answers > asked + asked / 8 ? bytes / answers : 0;
  }

  void forget() {
    answers = 0;
    bytes = 0;
    visits = 0;
  }
}
