package io.assignorbridge.planning;

import io.assignorbridge.admission.RecordTimes;
import io.assignorbridge.admission.Retentions;
import io.assignorbridge.cluster.Zones;
import io.assignorbridge.kafka.GroupCommits;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.model.ReadReport;
import io.assignorbridge.worker.Columns;
import io.assignorbridge.worker.Messages;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * The resources of a stream, created after a planner has validated its options.
 *
 * @param limitsBatches whether the options limit batches
 * @param commits null without assignor.commitGroup
 * @param retentions null without assignor.fairness=deadline
 * @param times null if the planner needs no record timestamps
 * @param planLog null without assignor.planLog
 */
record StreamResources(
    Messages.EffectiveOptions options,
    int stateVersion,
    boolean limitsBatches,
    Zones zones,
    GroupCommits commits,
    Retentions retentions,
    RecordTimes times,
    PlanLog planLog)
    implements AutoCloseable {

  /** Creates the resources; fails if the rack file cannot be used. */
  static StreamResources of(
      SparkContext context, Messages.Validated validation, Map<String, String> kafkaSettings)
      throws PlannerException {
    Messages.EffectiveOptions options = validation.options();
    return new StreamResources(
        options,
        validation.stateVersion(),
        validation.admits(),
        new Zones(context, options, kafkaSettings),
        options.commitGroup() == null
            ? null
            : new GroupCommits(options.commitGroup(), kafkaSettings),
        "deadline".equals(options.fairness()) ? new Retentions(kafkaSettings) : null,
        validation.needsTimes() ? new RecordTimes(kafkaSettings) : null,
        options.planLog() == null ? null : new PlanLog(options.planLog()));
  }

  Map<String, String> metrics() {
    Map<String, String> allMetrics = new TreeMap<>(zones.metrics());
    if (commits != null) {
      allMetrics.putAll(commits.metrics());
    }
    return allMetrics;
  }

  /** Commits the end offsets of the completed batches, if configured. */
  void complete(Offset end) {
    if (commits != null) {
      commits.commitCompleted(end);
    }
  }

  void addReports(List<ReadReport> reports) {
    if (times != null) {
      times.add(reports);
    }
  }

  void retain(Set<TopicPartition> livePartitions) {
    if (times != null) {
      times.retain(livePartitions);
    }
  }

  /** Returns the timestamps of the first unread records; null if the planner needs none. */
  Columns.Times findTimes(List<OffsetRange> unreadRanges)
      throws PlannerException, InterruptedException {
    return times == null ? null : times.findTimes(unreadRanges, options.planTimeoutMs());
  }

  /** Returns the known retentions in ms, by topic; null if the planner does not need them. */
  Map<String, Long> findRetentions(Collection<String> topics) {
    return retentions == null ? null : retentions.findRetentions(topics);
  }

  @Override
  public void close() {
    if (commits != null) {
      commits.close();
    }
    if (retentions != null) {
      retentions.close();
    }
    zones.close();
    if (times != null) {
      times.close();
    }
  }
}
