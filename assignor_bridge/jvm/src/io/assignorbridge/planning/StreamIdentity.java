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
 * disappears or its offsets go back, because its topic was then deleted or re-created, and the
 * consumers hold its records. Tasks of other streams carry the ended names to the executors, which
 * then close those consumers.
 */
final class StreamIdentity {
  private static final int MAX_ENDED_NAMES = 100;
  private static final Set<String> ENDED_NAMES = new LinkedHashSet<>(); // oldest first

  private final Map<TopicPartition, Long> lastEndByPartition = new HashMap<>();
  private String name = UUID.randomUUID().toString();

  /** Returns the names that ended last, at most {@code MAX_ENDED_NAMES}, oldest first. */
  static ArrayList<String> listRecentlyEnded() {
    synchronized (ENDED_NAMES) {
      return new ArrayList<>(ENDED_NAMES);
    }
  }

  String name() {
    return name;
  }

  /**
   * Changes the name if a topic was deleted or re-created; call it once per batch. The parameter
   * `livePartitions` has all partitions that the stream reads now, even without new records.
   */
  void startBatch(List<OffsetRange> batchRanges, Set<TopicPartition> livePartitions) {
    boolean isTopicGone = lastEndByPartition.keySet().retainAll(livePartitions);
    Map<TopicPartition, Long> batchEndByPartition = new HashMap<>();
    for (OffsetRange range : batchRanges) {
      TopicPartition partition = new TopicPartition(range.topic(), range.partition());
      isTopicGone |= range.start() < lastEndByPartition.getOrDefault(partition, 0L);
      batchEndByPartition.merge(partition, range.end(), Math::max);
    }
    if (isTopicGone) {
      end();
      lastEndByPartition.clear();
      name = UUID.randomUUID().toString();
    }
    lastEndByPartition.putAll(batchEndByPartition);
  }

  /** Marks the name as ended, because no later task uses it. */
  void end() {
    synchronized (ENDED_NAMES) {
      ENDED_NAMES.add(name);
      if (ENDED_NAMES.size() > MAX_ENDED_NAMES) {
        ENDED_NAMES.remove(ENDED_NAMES.iterator().next());
      }
    }
  }
}
