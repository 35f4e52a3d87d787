package io.assignorbridge;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Reads the ranges that the planner chose instead of Spark's own mapping. Offsets, limits, data-loss
 * checks, AvailableNow and source metrics are inherited.
 */
final class AssignedMicroBatchStream extends KafkaMicroBatchStream {
  private final BatchPlanner planner;
  private boolean knowsLatest;

  AssignedMicroBatchStream(
      BaseStream base, CaseInsensitiveStringMap options, BatchPlanner planner) {
    super(
        base.offsetReader(),
        base.executorKafkaParams(),
        options,
        base.metadataPath(),
        base.startingOffsets(),
        base.failOnDataLoss());
    this.planner = planner;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    InputPartition[] ranges = super.planInputPartitions(start, end); // Spark's checks come first
    planner.batchBegins();
    return ranges.length == 0 ? ranges : planner.assign(start, end, ranges);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return planner.readerFactory(super.createReaderFactory());
  }

  /**
   * Spark asks for metrics after a batch was completed and noted in the commit log, the last one of
   * an AvailableNow run too, and at each idle trigger; then all before these offsets is written.
   * (`commit(end)` comes only with the next batch.) Batches that failed do not get here.
   */
  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    latestConsumedOffset.ifPresent(planner::completed);
    Map<String, String> all = new HashMap<>(metricsOfSpark(latestConsumedOffset));
    all.putAll(planner.metrics());
    return all;
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    Offset latest = super.latestOffset(start, limit);
    knowsLatest = true;
    return latest;
  }

  /**
   * A batch that is run again after a crash takes its offsets from the log, and nobody has asked for
   * the latest ones yet. The metrics of Spark 4.1 fail then (apache/spark#55236) and with them the
   * query; those of 4.0 and 4.2 are empty.
   */
  private Map<String, String> metricsOfSpark(Optional<Offset> latestConsumedOffset) {
    try {
      return super.metrics(latestConsumedOffset);
    } catch (NullPointerException e) {
      if (knowsLatest) {
        throw e;
      }
      return Map.of();
    }
  }

  @Override
  public void stop() {
    try {
      planner.close();
    } finally {
      super.stop();
    }
  }
}
