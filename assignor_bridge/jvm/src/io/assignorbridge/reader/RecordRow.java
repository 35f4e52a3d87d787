package io.assignorbridge.reader;

import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * A Kafka record as a row of Spark's Kafka source. Columns are converted when they are read, as in
 * Spark's KafkaRecordToRowConverter (4.0 to 4.2). One mutable row shows all records of a task, one
 * after another. Spark's contract for readers allows this, because the projection above each scan
 * copies the columns.
 */
final class RecordRow extends InternalRow {
  private static final int KEY = 0;
  private static final int VALUE = 1;
  private static final int TOPIC = 2;
  private static final int PARTITION = 3;
  private static final int OFFSET = 4;
  private static final int TIMESTAMP = 5;
  private static final int TIMESTAMP_TYPE = 6;
  private static final int HEADERS = 7;

  /** From 1970 until this, the end of 9999, conversion needs no calendar and cannot overflow. */
  private static final long PLAIN_MILLIS_END = 253_402_300_800_000L;

  private final boolean hasHeaders;
  private ConsumerRecord<byte[], byte[]> record;
  private String topic; // the text in topicText
  private UTF8String topicText;

  RecordRow(boolean hasHeaders) {
    this.hasHeaders = hasHeaders;
  }

  RecordRow show(ConsumerRecord<byte[], byte[]> nextRecord) {
    record = nextRecord;
    return this;
  }

  @Override
  public int numFields() {
    return hasHeaders ? HEADERS + 1 : HEADERS;
  }

  @Override
  public boolean isNullAt(int column) {
    return switch (column) {
      case KEY -> record.key() == null;
      case VALUE -> record.value() == null;
      case HEADERS -> !record.headers().iterator().hasNext();
      default -> false;
    };
  }

  @Override
  public byte[] getBinary(int column) {
    return switch (column) {
      case KEY -> record.key();
      case VALUE -> record.value();
      default -> throw wrongType(column);
    };
  }

  @Override
  public UTF8String getUTF8String(int column) {
    if (column != TOPIC) {
      throw wrongType(column);
    }
    String recordTopic = record.topic();
    if (recordTopic != topic) { // a range's records share the String object
      topic = recordTopic;
      topicText = UTF8String.fromString(recordTopic);
    }
    return topicText;
  }

  @Override
  public int getInt(int column) {
    return switch (column) {
      case PARTITION -> record.partition();
      case TIMESTAMP_TYPE -> record.timestampType().id;
      default -> throw wrongType(column);
    };
  }

  @Override
  public long getLong(int column) {
    return switch (column) {
      case OFFSET -> record.offset();
      case TIMESTAMP -> toMicros(record.timestamp());
      default -> throw wrongType(column);
    };
  }

  @Override
  public ArrayData getArray(int column) {
    if (column != HEADERS) {
      throw wrongType(column);
    }
    List<Object> headers = new ArrayList<>();
    for (Header header : record.headers()) {
      headers.add(
          new GenericInternalRow(
              new Object[] {UTF8String.fromString(header.key()), header.value()}));
    }
    return headers.isEmpty() ? null : new GenericArrayData(headers.toArray());
  }

  @Override
  public Object get(int column, DataType type) {
    if (isNullAt(column)) {
      return null;
    }
    return switch (column) {
      case KEY, VALUE -> getBinary(column);
      case TOPIC -> getUTF8String(column);
      case PARTITION, TIMESTAMP_TYPE -> getInt(column);
      case OFFSET, TIMESTAMP -> getLong(column);
      case HEADERS -> getArray(column);
      default -> throw wrongType(column);
    };
  }

  /** Returns an independent row, which shares the immutable keys and values with the record. */
  @Override
  public InternalRow copy() {
    Object[] values = new Object[numFields()];
    for (int column = 0; column < values.length; column++) {
      values[column] = get(column, null);
    }
    return new GenericInternalRow(values);
  }

  private static long toMicros(long millis) {
    return millis >= 0 && millis < PLAIN_MILLIS_END
        ? millis * 1000
        : DateTimeUtils.fromJavaTimestamp(new Timestamp(millis));
  }

  private static RuntimeException wrongType(int column) {
    return new UnsupportedOperationException("column " + column + " of a Kafka row has another type");
  }

  @Override
  public void setNullAt(int column) {
    throw new UnsupportedOperationException("a Kafka row is read-only");
  }

  @Override
  public void update(int column, Object value) {
    throw new UnsupportedOperationException("a Kafka row is read-only");
  }

  @Override
  public boolean getBoolean(int column) {
    throw wrongType(column);
  }

  @Override
  public byte getByte(int column) {
    throw wrongType(column);
  }

  @Override
  public short getShort(int column) {
    throw wrongType(column);
  }

  @Override
  public float getFloat(int column) {
    throw wrongType(column);
  }

  @Override
  public double getDouble(int column) {
    throw wrongType(column);
  }

  @Override
  public Decimal getDecimal(int column, int precision, int scale) {
    throw wrongType(column);
  }

  @Override
  public CalendarInterval getInterval(int column) {
    throw wrongType(column);
  }

  @Override
  public VariantVal getVariant(int column) {
    throw wrongType(column);
  }

  @Override
  public InternalRow getStruct(int column, int fields) {
    throw wrongType(column);
  }

  @Override
  public MapData getMap(int column) {
    throw wrongType(column);
  }
}
