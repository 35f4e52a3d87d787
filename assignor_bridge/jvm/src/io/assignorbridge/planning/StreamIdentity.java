package io.assignorbridge.planning;

import io.assignorbridge.model.OffsetRange;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;

/**
 * Names the consumers that executors keep for one run of a stream. A name ends with the run, and
 * when a partition's offsets went back or it is gone: its topic was made anew, and what consumers hold
 * is of the old one. Tasks of other streams tell the executors which names have ended.
 */
final class StreamIdentity {
  private static final int ENDED_TO_TELL = 100;
  private static final Set<String> ENDED = new LinkedHashSet<>(); // oldest first

  private final Map<TopicPartition, Long> ends = new HashMap<>();
  private String name = UUID.randomUUID().toString();

  /** The names that have ended last. */
  static ArrayList<String> ended() {
    synchronized (ENDED) {
      return new ArrayList<>(ENDED);
    }
  }

  /** The name for the batch that was noted last. */
  String name() {
    return name;
  }

  /**
   * Notes the ranges that a batch reads, once for each batch. `live` are the partitions that the
   * stream has: those that are gone are forgotten, and with them the name.
   */
  void note(List<OffsetRange> batch, Set<TopicPartition> live) {
    boolean isOfOthers = ends.keySet().retainAll(live);
    Map<TopicPartition, Long> next = new HashMap<>();
    for (OffsetRange range : batch) {
      TopicPartition partition = new TopicPartition(range.topic(), range.partition());
      isOfOthers |= range.start() < ends.getOrDefault(partition, 0L);
      next.merge(partition, range.end(), Math::max);
    }
    if (isOfOthers) {
      end();
      ends.clear();
      name = UUID.randomUUID().toString();
    }
    ends.putAll(next);
  }

  /** No task will use the name again. */
  void end() {
    synchronized (ENDED) {
      ENDED.add(name);
      if (ENDED.size() > ENDED_TO_TELL) {
        ENDED.remove(ENDED.iterator().next());
      }
    }
  }
}
