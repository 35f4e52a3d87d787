package io.assignorbridge.planning;

import io.assignorbridge.cluster.ExecutorRacks;
import io.assignorbridge.model.AssignedInputPartition;
import io.assignorbridge.model.JarVersion;
import io.assignorbridge.model.ReadReport;
import io.assignorbridge.model.ReportAccumulator;
import io.assignorbridge.reader.SharedReader;
import java.util.ArrayList;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Creates the shared reader for planned tasks, and Spark's own reader for other partitions. */
final class AssignedReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final String driverVersion = JarVersion.CURRENT;
  private final PartitionReaderFactory sparkReaders;
  private final boolean usesSharedReader;
  private final ArrayList<String> endedStreams;
  @SuppressWarnings("serial") // accumulators are serializable
  private final ReportAccumulator<ReadReport> reports;
  private final ExecutorRacks.ReaderRacks racks; // null before the first plan

  AssignedReaderFactory(
      PartitionReaderFactory sparkReaders,
      boolean usesSharedReader,
      ReportAccumulator<ReadReport> reports,
      ExecutorRacks.ReaderRacks racks) {
    this.sparkReaders = sparkReaders;
    this.usesSharedReader = usesSharedReader;
    this.reports = reports;
    this.racks = racks;
    this.endedStreams = StreamIdentity.listRecentlyEnded();
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    if (!(partition instanceof AssignedInputPartition task)) {
      return sparkReaders.createReader(partition);
    }
    JarVersion.checkDriver(driverVersion);
    String rack = racks == null ? null : racks.findRack(SparkEnv.get().executorId());
    return new SharedReader(
        task,
        sparkReaders,
        usesSharedReader,
        endedStreams,
        rack,
        reports::add,
        bytesByBroker -> racks.addReceived(rack, bytesByBroker)); // only if the rack is known
  }
}
