package io.assignorbridge;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;

/**
 * Reads a task's ranges one after the other with Spark's own reader of each. A range may end before
 * its last offset (compaction, transaction markers): the next one follows all the same.
 */
final class ChainedReader implements PartitionReader<InternalRow> {
  private final AssignedInputPartition task;
  private final PartitionReaderFactory base;
  private final Consumer<ReadReport> reports;

  /** Sums of the closed readers: Spark sets a task's metric values, it does not add them. */
  private final Map<String, Long> closedMetrics = new LinkedHashMap<>();

  private PartitionReader<InternalRow> current;
  private int next;
  private long records;
  private long startedNanos;

  ChainedReader(
      AssignedInputPartition task, PartitionReaderFactory base, Consumer<ReadReport> reports) {
    this.task = task;
    this.base = base;
    this.reports = reports;
  }

  @Override
  public boolean next() throws IOException {
    while (true) {
      if (current != null) {
        if (current.next()) {
          records++;
          return true;
        }
        report();
        closeCurrent();
      }
      if (next == task.ranges().length) {
        return false;
      }
      startedNanos = System.nanoTime();
      records = 0;
      current = base.createReader(task.ranges()[next++]);
    }
  }

  @Override
  public InternalRow get() {
    return current.get();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    Map<String, Long> sums = new LinkedHashMap<>(closedMetrics);
    if (current != null) {
      addMetrics(current, sums);
    }
    return sums.entrySet().stream()
        .map(e -> new TaskMetric(e.getKey(), e.getValue()))
        .toArray(CustomTaskMetric[]::new);
  }

  @Override
  public void close() throws IOException {
    if (current != null) {
      closeCurrent();
    }
  }

  private void closeCurrent() throws IOException {
    addMetrics(current, closedMetrics);
    PartitionReader<InternalRow> done = current;
    current = null;
    done.close();
  }

  private static void addMetrics(PartitionReader<InternalRow> reader, Map<String, Long> sums) {
    for (CustomTaskMetric metric : reader.currentMetricsValues()) {
      sums.merge(metric.name(), metric.value(), Long::sum);
    }
  }

  /** Spark's reader does not tell how many bytes a record had: 0 stands for unknown. */
  private void report() {
    KafkaBatchInputPartition partition = task.ranges()[next - 1];
    KafkaOffsetRange range = partition.offsetRange();
    reports.accept(
        new ReadReport(
            task.plan(),
            task.index(),
            task.executor(),
            SparkEnv.get().executorId(),
            range.topic(),
            range.partition(),
            records,
            0L,
            System.nanoTime() - startedNanos,
            range.untilOffset() - range.fromOffset()));
  }

  private record TaskMetric(String name, long value) implements CustomTaskMetric {}
}
