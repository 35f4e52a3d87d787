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
 * Names the consumers that executors keep for one run of a stream. The name changes if a
 * partition's offsets go back or a partition disappears, because its topic was re-created and
 * consumers hold records of the old one. Tasks of other streams carry ended names to the executors.
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
   * Updates the name for a batch that reads these ranges; call it once per batch. `livePartitions`
   * are all partitions of the stream: if one has disappeared, the name changes.
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

  /** Marks the name as ended: no task will use it again. */
  void end() {
    synchronized (ENDED) {
      ENDED.add(name);
      if (ENDED.size() > MAX_ENDED) {
        ENDED.remove(ENDED.iterator().next());
      }
    }
  }
}
