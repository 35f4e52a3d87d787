package io.assignorbridge.reader;

import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Reads handed-over ranges with Spark's own readers, one after another. */
final class SparkRanges {
  private static final int TIMESTAMP_COLUMN = 5; // column in a row of Spark's Kafka source

  private final PartitionReaderFactory readerFactory;
  private final Map<String, Long> closedReaderSumByMetric =
      new TreeMap<>(Map.of("offsetOutOfRange", 0L, "dataLoss", 0L));
  private CustomTaskMetric[] closedReaderMetrics = // a cache, because Spark calls `metrics` often
      toMetrics(closedReaderSumByMetric);
  private PartitionReader<InternalRow> reader; // null between two ranges
  private RangeCursor range;

  SparkRanges(PartitionReaderFactory readerFactory) {
    this.readerFactory = readerFactory;
  }

  /** Opens Spark's reader for the handed-over part of a range. */
  void open(RangeCursor nextRange) {
    range = nextRange;
    reader = readerFactory.createReader(nextRange.handedOverPart());
  }

  boolean isOpen() {
    return reader != null;
  }

  /** Returns the current range, or the last one if none is open. */
  RangeCursor range() {
    return range;
  }

  /** Returns the next row of the range; after the last one, closes the reader and returns null. */
  InternalRow next() throws IOException {
    if (!reader.next()) {
      close();
      return null;
    }
    InternalRow row = reader.get();
    range.recordCount++;
    range.addTimestamp(Math.floorDiv(row.getLong(TIMESTAMP_COLUMN), 1000)); // from microseconds
    return row;
  }

  /** Returns the sums of all readers' metrics, because Spark replaces a task's previous values. */
  CustomTaskMetric[] metrics() {
    PartitionReader<InternalRow> currentReader = reader; // another thread may close it
    if (currentReader == null) {
      return closedReaderMetrics;
    }
    Map<String, Long> sumByMetric = new TreeMap<>(closedReaderSumByMetric);
    addMetrics(sumByMetric, currentReader);
    return toMetrics(sumByMetric);
  }

  private static CustomTaskMetric[] toMetrics(Map<String, Long> sumByMetric) {
    return sumByMetric.entrySet().stream()
        .map(entry -> new TaskMetric(entry.getKey(), entry.getValue()))
        .toArray(CustomTaskMetric[]::new);
  }

  void close() throws IOException {
    if (reader != null) {
      addMetrics(closedReaderSumByMetric, reader);
      closedReaderMetrics = toMetrics(closedReaderSumByMetric);
      for (CustomTaskMetric metric : reader.currentMetricsValues()) {
        if (metric.name().equals("offsetOutOfRange")) { // offsets that Spark's reader skipped
          range.lostOffsets = metric.value();
        }
      }
      PartitionReader<InternalRow> openReader = reader;
      reader = null;
      openReader.close();
    }
  }

  private static void addMetrics(
      Map<String, Long> sumByMetric, PartitionReader<InternalRow> sparkReader) {
    for (CustomTaskMetric metric : sparkReader.currentMetricsValues()) {
      sumByMetric.merge(metric.name(), metric.value(), Long::sum);
    }
  }

  private record TaskMetric(String name, long value) implements CustomTaskMetric {}
}
