package io.assignorbridge.admission;

import io.assignorbridge.kafka.SourceOffsets;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReadMinRows;
import org.apache.spark.sql.kafka010.KafkaOffsetReader;
import scala.jdk.javaapi.CollectionConverters;

/** Holds the ranges that a batch could read, and verifies the planner's answer. */
public final class LimitedBatch {

  /** Marks that our options limit batches; Spark's warning about `Trigger.Once` prints it. */
  private record AssignorLimit() implements ReadLimit {
    @Override
    public String toString() {
      return "of the options assignor.*";
    }
  }

  /** Spark's limits: `min` triggers a batch; `max` is `maxOffsets` (MAX_VALUE if unlimited). */
  public record Limits(ReadLimit min, ReadLimit max, long maxOffsets) {
    public static Limits of(ReadLimit limit) {
      ReadLimit min = ReadLimit.allAvailable();
      long maxOffsets = Long.MAX_VALUE;
      for (ReadLimit part : splitLimit(limit)) {
        if (part instanceof ReadMaxRows rows) {
          maxOffsets = rows.maxRows();
        } else if (part instanceof ReadMinRows) {
          min = part;
        }
      }
      return new Limits(min, ReadLimit.maxRows(maxOffsets), maxOffsets);
    }

    /** Adds a marker if there is no maximum; without any limit, Spark would read all records. */
    public static ReadLimit addAssignorLimit(ReadLimit limit) {
      Limits limits = of(limit);
      ReadLimit max = limits.maxOffsets < Long.MAX_VALUE ? limits.max : new AssignorLimit();
      return limits.min instanceof ReadMinRows
          ? ReadLimit.compositeLimit(new ReadLimit[] {limits.min, max})
          : max;
    }

    private static ReadLimit[] splitLimit(ReadLimit limit) {
      return limit instanceof CompositeReadLimit composite
          ? composite.getReadLimits()
          : new ReadLimit[] {limit};
    }
  }

  private final long maxOffsets;
  private final Map<TopicPartition, Long> endByPartition;
  private final Map<TopicPartition, OffsetRange> unreadRangeByPartition = new HashMap<>();

  public LimitedBatch(
      Offset start, Offset latestOffset, long maxOffsets, KafkaOffsetReader reader) {
    this.maxOffsets = maxOffsets;
    Map<TopicPartition, Long> startByPartition = SourceOffsets.of(start);
    endByPartition = SourceOffsets.of(latestOffset);
    List<TopicPartition> newPartitions = new ArrayList<>(endByPartition.keySet());
    newPartitions.removeAll(startByPartition.keySet());
    if (!newPartitions.isEmpty()) { // Spark reads new partitions from their beginning
      startByPartition.putAll(
          SourceOffsets.of(
              reader.fetchEarliestOffsets(CollectionConverters.asScala(newPartitions).toSeq())));
    }
    endByPartition.forEach(
        (p, end) -> {
          Long startOffset = startByPartition.get(p);
          if (startOffset != null && startOffset < end) { // Spark reports lower ends itself
            var range = new OffsetRange(p.topic(), p.partition(), startOffset, end);
            unreadRangeByPartition.put(p, range);
          }
        });
  }

  /** Returns the unread range of each partition that has new offsets. */
  public List<OffsetRange> unreadRanges() {
    return List.copyOf(unreadRangeByPartition.values());
  }

  /** Returns Spark's limit in offsets for the planner's request; null if unlimited. */
  public Long maxOffsets() {
    return maxOffsets == Long.MAX_VALUE ? null : maxOffsets;
  }

  /**
   * Returns the batch's end. Fails unless the planner admitted one part of each unread range, from
   * its start (the part may be empty), and 1 to `maxOffsets` offsets in all.
   */
  public Offset verifyEnd(List<OffsetRange> admittedRanges) throws PlannerException {
    Map<TopicPartition, Long> admittedEndByPartition = new HashMap<>(endByPartition);
    Set<TopicPartition> admittedPartitions = new HashSet<>();
    long offsetCount = 0;
    for (OffsetRange range : admittedRanges) {
      TopicPartition p = new TopicPartition(range.topic(), range.partition());
      OffsetRange unreadRange = unreadRangeByPartition.get(p);
      if (unreadRange == null
          || !admittedPartitions.add(p)
          || range.start() != unreadRange.start()
          || range.end() < unreadRange.start()
          || range.end() > unreadRange.end()) {
        throw new PlannerException(
            "the planner admitted %s; expected one part of %s, from its start"
                .formatted(range, unreadRange == null ? "an unread range" : unreadRange));
      }
      offsetCount = Math.addExact(offsetCount, range.end() - range.start());
      admittedEndByPartition.put(p, range.end());
    }
    int rangeCount = unreadRangeByPartition.size();
    if (admittedPartitions.size() < rangeCount || offsetCount < 1 || offsetCount > maxOffsets) {
      throw new PlannerException(
          "the planner admitted offsets: %d (expected 1 to %d), partitions: %d (expected %d)"
              .formatted(offsetCount, maxOffsets, admittedPartitions.size(), rangeCount));
    }
    return SourceOffsets.toOffset(admittedEndByPartition);
  }
}
