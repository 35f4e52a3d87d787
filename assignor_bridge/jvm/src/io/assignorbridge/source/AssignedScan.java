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
      LOG.info("assignor-bridge leaves a stream to Spark: its session names no assignor any more");
      return stream;
    }
    AssignorOptions ours = ours(session);
    AssignedMicroBatchStream assigned;
    try {
      assigned = new AssignedMicroBatchStream(stream, options, ours, killSwitch, session);
    } catch (RuntimeException | LinkageError e) { // another Spark
      PlannerException misfit = PlannerException.unexpected(e, session.version());
      if (ours.failOnError()) {
        stream.stop();
        throw new IllegalStateException(misfit.getMessage(), misfit);
      }
      LOG.warn(
          "assignor-bridge leaves a stream to Spark's own mapping as long as it runs"
              + " (assignor.onError=fail would stop the query): {}",
          misfit.getMessage());
      return stream;
    }
    try {
      assigned.startPlanner();
    } catch (Throwable e) {
      assigned.stop(); // Spark stops only streams that were handed to it
      throw e;
    }
    return assigned;
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
    NoEffect.of("continuous processing plans no batches", ours(SparkSession.active()).failOnError());
    return base.toContinuousStream(checkpointLocation);
  }

  private AssignorOptions ours(SparkSession session) {
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

  /** Not delegated, this would ask for the input partitions during physical planning. */
  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return base.columnarSupportMode();
  }
}
