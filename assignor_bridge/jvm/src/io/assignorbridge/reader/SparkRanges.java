package io.assignorbridge.reader;

import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Spark's own readers of the ranges that are handed over, one after another. */
final class SparkRanges {
  private static final int TIMESTAMP = 5; // its place in a row of Spark's Kafka source

  private final PartitionReaderFactory readers;
  private final Map<String, Long> closedMetrics =
      new TreeMap<>(Map.of("offsetOutOfRange", 0L, "dataLoss", 0L));
  private CustomTaskMetric[] closedValues = values(closedMetrics); // requested every 100 rows
  private PartitionReader<InternalRow> reader; // null between two ranges
  private RangeCursor range;

  SparkRanges(PartitionReaderFactory readers) {
    this.readers = readers;
  }

  /** Opens Spark's reader of the rest of a range. */
  void open(RangeCursor handedOver) {
    range = handedOver;
    reader = readers.createReader(handedOver.restOfRange());
  }

  boolean isOpen() {
    return reader != null;
  }

  /** The range that is read, or was read last. */
  RangeCursor range() {
    return range;
  }

  /** The next row of the range; null after the last one, when the reader is closed. */
  InternalRow next() throws IOException {
    if (!reader.next()) {
      close();
      return null;
    }
    InternalRow row = reader.get();
    range.records++;
    range.stamp(Math.floorDiv(row.getLong(TIMESTAMP), 1000)); // Spark has microseconds
    return row;
  }

  /** The metrics of all readers: sums, for Spark sets a task's metric values. */
  CustomTaskMetric[] metrics() {
    PartitionReader<InternalRow> open = reader; // a thread that pipes the rows may close it
    if (open == null) {
      return closedValues;
    }
    Map<String, Long> sums = new TreeMap<>(closedMetrics);
    addTo(sums, open);
    return values(sums);
  }

  private static CustomTaskMetric[] values(Map<String, Long> sums) {
    return sums.entrySet().stream()
        .map(entry -> new TaskMetric(entry.getKey(), entry.getValue()))
        .toArray(CustomTaskMetric[]::new);
  }

  void close() throws IOException {
    if (reader != null) {
      addTo(closedMetrics, reader);
      closedValues = values(closedMetrics);
      for (CustomTaskMetric metric : reader.currentMetricsValues()) {
        if (metric.name().equals("offsetOutOfRange")) { // offsets that Spark's reader has skipped
          range.lost = metric.value();
        }
      }
      PartitionReader<InternalRow> ended = reader;
      reader = null;
      ended.close();
    }
  }

  private static void addTo(Map<String, Long> sums, PartitionReader<InternalRow> open) {
    for (CustomTaskMetric metric : open.currentMetricsValues()) {
      sums.merge(metric.name(), metric.value(), Long::sum);
    }
  }

  private record TaskMetric(String name, long value) implements CustomTaskMetric {}
}
