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

/** What a batch could read, and the end that is given to Spark once it is verified. */
public final class LimitedBatch {

  /** As Spark names it in its warning that `Trigger.Once` ignores limits. */
  private record Ours() implements ReadLimit {
    @Override
    public String toString() {
      return "of the options assignor.*";
    }
  }

  /** Spark's limits, apart: it says whether there is a batch, we say how far one goes. */
  public record Limits(ReadLimit least, ReadLimit most, long mostRecords) {
    public static Limits of(ReadLimit limit) {
      ReadLimit least = ReadLimit.allAvailable();
      long mostRecords = Long.MAX_VALUE;
      for (ReadLimit each : parts(limit)) {
        if (each instanceof ReadMaxRows rows) {
          mostRecords = rows.maxRows();
        } else if (each instanceof ReadMinRows) {
          least = each;
        }
      }
      return new Limits(least, ReadLimit.maxRows(mostRecords), mostRecords);
    }

    /** With a limit in any case: without one, Spark wants everything (`Trigger.Once`). */
    public static ReadLimit withOurs(ReadLimit limit) {
      Limits limits = of(limit);
      ReadLimit most = limits.mostRecords < Long.MAX_VALUE ? limits.most : new Ours();
      return limits.least instanceof ReadMinRows
          ? ReadLimit.compositeLimit(new ReadLimit[] {limits.least, most})
          : most;
    }

    private static ReadLimit[] parts(ReadLimit limit) {
      return limit instanceof CompositeReadLimit all
          ? all.getReadLimits()
          : new ReadLimit[] {limit};
    }
  }

  private final long mostRecords;
  private final Map<TopicPartition, Long> ends;
  private final Map<TopicPartition, OffsetRange> waiting = new HashMap<>();

  public LimitedBatch(Offset start, Offset latest, long mostRecords, KafkaOffsetReader reader) {
    this.mostRecords = mostRecords;
    Map<TopicPartition, Long> starts = SourceOffsets.of(start);
    ends = SourceOffsets.of(latest);
    List<TopicPartition> added = new ArrayList<>(ends.keySet());
    added.removeAll(starts.keySet());
    if (!added.isEmpty()) { // Spark reads new partitions from their beginning
      starts.putAll(
          SourceOffsets.of(
              reader.fetchEarliestOffsets(CollectionConverters.asScala(added).toSeq())));
    }
    ends.forEach(
        (p, end) -> {
          Long from = starts.get(p);
          if (from != null && from < end) { // else what is wrong is Spark's to say
            waiting.put(p, new OffsetRange(p.topic(), p.partition(), from, end));
          }
        });
  }

  /** From where reading goes on to where it may go; partitions without records are left out. */
  public List<OffsetRange> waiting() {
    return List.copyOf(waiting.values());
  }

  /** Spark's limit, for a message; null if there is none. */
  public Long mostRecords() {
    return mostRecords == Long.MAX_VALUE ? null : mostRecords;
  }

  /** The end of the batch: within what waits, not empty, and no more records than Spark allows. */
  public Offset end(List<OffsetRange> admitted) throws PlannerException {
    Map<TopicPartition, Long> cut = new HashMap<>(ends);
    Set<TopicPartition> named = new HashSet<>();
    long records = 0;
    for (OffsetRange range : admitted) {
      TopicPartition p = new TopicPartition(range.topic(), range.partition());
      OffsetRange asked = waiting.get(p);
      if (asked == null
          || !named.add(p)
          || range.start() != asked.start()
          || range.end() < asked.start()
          || range.end() > asked.end()) {
        throw new PlannerException("the planner admits " + range + ", asked was for " + asked);
      }
      records = Math.addExact(records, range.end() - range.start());
      cut.put(p, range.end());
    }
    if (named.size() < waiting.size() || records < 1 || records > mostRecords) {
      throw new PlannerException(
          "the planner admits %d records of %d partitions: from 1 to %d records of %d are expected"
              .formatted(records, named.size(), mostRecords, waiting.size()));
    }
    return SourceOffsets.toOffset(cut);
  }
}
