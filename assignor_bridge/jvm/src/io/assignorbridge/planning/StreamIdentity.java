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
 * Names the consumers that executors keep for one run of a stream. The name changes if a partition
 * disappears or its offsets go back. Its topic was then re-created, and consumers hold records of
 * the old topic. Tasks of other streams carry the ended names to the executors.
 */
final class StreamIdentity {
  private static final int MAX_ENDED = 100;
  private static final Set<String> ENDED = new LinkedHashSet<>(); // oldest first

  private final Map<TopicPartition, Long> ends = new HashMap<>();
  private String name = UUID.randomUUID().toString();

  /** Returns the names that ended most recently. */
  static ArrayList<String> recentlyEnded() {
    synchronized (ENDED) {
      return new ArrayList<>(ENDED);
    }
  }

  /** Returns the name for the current batch. */
  String name() {
    return name;
  }

  /**
   * Changes the name if a topic was re-created; call it once per batch, with the ranges that it
   * reads. `livePartitions` are all partitions that the stream reads now.
   */
  void startBatch(List<OffsetRange> batch, Set<TopicPartition> livePartitions) {
    boolean isRecreated = ends.keySet().retainAll(livePartitions);
    Map<TopicPartition, Long> next = new HashMap<>();
    for (OffsetRange range : batch) {
      TopicPartition partition = new TopicPartition(range.topic(), range.partition());
      isRecreated |= range.start() < ends.getOrDefault(partition, 0L);
      next.merge(partition, range.end(), Math::max);
    }
    if (isRecreated) {
      end();
      ends.clear();
      name = UUID.randomUUID().toString();
    }
    ends.putAll(next);
  }

  /** Marks the name as ended, because no later task uses it. */
  void end() {
    synchronized (ENDED) {
      ENDED.add(name);
      if (ENDED.size() > MAX_ENDED) {
        ENDED.remove(ENDED.iterator().next());
      }
    }
  }
}
