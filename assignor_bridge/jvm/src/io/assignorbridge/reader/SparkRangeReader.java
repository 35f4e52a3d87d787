package io.assignorbridge.reader;

import java.io.IOException;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.kafka010.KafkaBatchReaderFactory;

/**
 * What is left of one range, read by Spark's own reader. It decides what lost offsets and time-outs
 * mean, in the words of the Spark version in use.
 */
final class SparkRangeReader {
  final RangeCursor cursor;
  private final PartitionReader<InternalRow> reader;

  SparkRangeReader(RangeCursor cursor, long offset) {
    this.cursor = cursor;
    this.reader = KafkaBatchReaderFactory.createReader(cursor.rest(offset));
  }

  boolean next() throws IOException {
    if (!reader.next()) {
      return false;
    }
    cursor.records++;
    return true;
  }

  InternalRow get() {
    return reader.get();
  }

  void addMetricsTo(Map<String, Long> sums) {
    for (CustomTaskMetric metric : reader.currentMetricsValues()) {
      sums.merge(metric.name(), metric.value(), Long::sum);
    }
  }

  void close() throws IOException {
    reader.close();
  }
}
