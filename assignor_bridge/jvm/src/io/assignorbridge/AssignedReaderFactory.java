package io.assignorbridge;

import io.assignorbridge.reader.SharedReader;
import java.util.ArrayList;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Makes the reader of a planned task; partitions that are not ours go to Spark's factory. */
final class AssignedReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final String version = JarVersion.HERE;
  private final PartitionReaderFactory base;
  private final boolean shared;
  private final ArrayList<String> endedStreams;

  @SuppressWarnings("serial") // accumulators are serializable
  private final ReadReports reports;

  AssignedReaderFactory(PartitionReaderFactory base, boolean shared, ReadReports reports) {
    this.base = base;
    this.shared = shared;
    this.reports = reports;
    this.endedStreams = StreamIdentity.ended();
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    if (!(partition instanceof AssignedInputPartition task)) {
      return base.createReader(partition);
    }
    JarVersion.checkDriver(version);
    return new SharedReader(task, base, shared, endedStreams, reports::add);
  }
}
