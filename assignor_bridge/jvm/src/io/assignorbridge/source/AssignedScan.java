package io.assignorbridge.source;

import io.assignorbridge.model.PlannerException;
import io.assignorbridge.settings.AssignorOptions;
import io.assignorbridge.settings.KillSwitch;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.ContinuousStream;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/** Spark's Kafka scan with our micro-batch stream. */
final class AssignedScan implements Scan {
  private static final Logger LOG = LoggerFactory.getLogger(AssignedScan.class);

  private final Scan base;
  private final CaseInsensitiveStringMap options;
  private final KillSwitch killSwitch;

  AssignedScan(Scan base, CaseInsensitiveStringMap options, KillSwitch killSwitch) {
    this.base = base;
    this.options = options;
    this.killSwitch = killSwitch;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    MicroBatchStream stream = base.toMicroBatchStream(checkpointLocation);
    SparkSession session = SparkSession.active();
    if (!AssignorOptions.hasAssignor(options, session.conf().getAll())) {
      LOG.info("assignor-bridge leaves a stream to Spark: its session no longer names an assignor");
      return stream;
    }
    AssignorOptions assignorOptions = readOptions(session);
    AssignedMicroBatchStream assignedStream;
    try {
      assignedStream = new AssignedMicroBatchStream(stream, options, assignorOptions, killSwitch, session);
    } catch (RuntimeException | LinkageError e) { // an incompatible Spark
      PlannerException failure = PlannerException.fromUnexpected(e, session.version());
      if (assignorOptions.failOnError()) {
        stream.stop();
        throw new IllegalStateException(failure.getMessage(), failure);
      }
      LOG.warn(
          "assignor-bridge leaves a stream to Spark's default assignment"
              + " (assignor.onError=fail would stop the query): {}",
          failure.getMessage());
      return stream;
    }
    try {
      assignedStream.startPlanner();
    } catch (Throwable e) {
      assignedStream.stop(); // Spark stops only streams that it has received
      throw e;
    }
    return assignedStream;
  }

  @Override
  public StructType readSchema() {
    return base.readSchema();
  }

  @Override
  public String description() {
    return base.description();
  }

  @Override
  public ContinuousStream toContinuousStream(String checkpointLocation) {
    NoEffect.report(
        "Spark does not plan batches in continuous processing",
        readOptions(SparkSession.active()).failOnError());
    return base.toContinuousStream(checkpointLocation);
  }

  private AssignorOptions readOptions(SparkSession session) {
    return AssignorOptions.of(options, CollectionConverters.asJava(session.conf().getAll()));
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return base.supportedCustomMetrics();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return base.reportDriverMetrics();
  }

  /** Delegates, because the default requests the input partitions during physical planning. */
  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return base.columnarSupportMode();
  }
}
