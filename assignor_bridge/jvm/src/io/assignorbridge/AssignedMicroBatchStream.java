package io.assignorbridge;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads the ranges that the planner chose instead of Spark's own mapping. Offsets, limits, data-loss
 * checks, AvailableNow and source metrics are inherited.
 */
final class AssignedMicroBatchStream extends KafkaMicroBatchStream {
  private final BatchPlanner planner;

  static MicroBatchStream over(MicroBatchStream stream, CaseInsensitiveStringMap options) {
    SparkSession session = SparkSession.active();
    AssignorOptions ours =
        AssignorOptions.of(options, CollectionConverters.asJava(session.conf().getAll()));
    BaseStream base = BaseStream.of(stream);
    BatchPlanner planner =
        new BatchPlanner(
            session.sparkContext(),
            ours,
            new SourceFolder(base.metadataPath(), session.sessionState().newHadoopConf()));
    try {
      planner.start();
    } catch (RuntimeException e) {
      planner.close();
      stream.stop(); // Spark stops only streams that were handed to it
      throw e;
    }
    return new AssignedMicroBatchStream(base, options, planner);
  }

  private AssignedMicroBatchStream(
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
    Map<String, String> all = new HashMap<>(super.metrics(latestConsumedOffset));
    all.putAll(planner.metrics());
    return all;
  }

  @Override
  public void stop() {
    planner.close();
    super.stop();
  }
}
