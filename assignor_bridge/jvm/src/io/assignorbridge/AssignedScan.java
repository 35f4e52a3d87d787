package io.assignorbridge;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.ContinuousStream;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's Kafka scan with our micro-batch stream. */
final class AssignedScan implements Scan {
  private final Scan base;
  private final CaseInsensitiveStringMap options;

  AssignedScan(Scan base, CaseInsensitiveStringMap options) {
    this.base = base;
    this.options = options;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    return AssignedMicroBatchStream.over(base.toMicroBatchStream(checkpointLocation), options);
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
  public Batch toBatch() {
    return base.toBatch();
  }

  @Override
  public ContinuousStream toContinuousStream(String checkpointLocation) {
    return base.toContinuousStream(checkpointLocation);
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
