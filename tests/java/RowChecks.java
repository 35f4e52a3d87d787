package io.assignorbridge.reader;

import static io.assignorbridge.reader.FakeKafka.check;

import java.util.Optional;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import scala.Function1;

/** Compares rows of random records with those of Spark's own converter, byte for byte. */
final class RowChecks {
  private static final TimestampType[] TYPES = TimestampType.values();
  private static final long[] MILLIS = {
    -1, 0, 1, 1_700_000_000_123L, -62_135_596_800_000L, -12_219_292_800_000L, 253_402_300_799_999L,
    253_402_300_800_000L, Long.MAX_VALUE / 1000, Long.MIN_VALUE / 1000,
  };

  private final Random random;
  private final RecordRow view;
  private final Function1<ConsumerRecord<byte[], byte[]>, UnsafeRow> sparks;
  private final UnsafeProjection unsafe;

  private RowChecks(long seed, boolean withHeaders) {
    random = new Random(seed);
    view = new RecordRow(withHeaders);
    sparks = new KafkaRecordToRowConverter().toUnsafeRowProjector(withHeaders);
    unsafe = UnsafeProjection.create(KafkaRecordToRowConverter.kafkaSchema(withHeaders));
  }

  static void compare(long seed, boolean withHeaders) {
    RowChecks checks = new RowChecks(seed, withHeaders);
    InternalRow before = null;
    UnsafeRow expectedBefore = null;
    for (int i = 0; i < 500; i++) {
      ConsumerRecord<byte[], byte[]> record = checks.record(i);
      UnsafeRow expected = checks.sparks.apply(record).copy();
      InternalRow row = checks.view.show(record);
      check(row.numFields() == expected.numFields(), "another number of columns");
      check(checks.unsafe.apply(row).equals(expected), "another row of " + record);
      for (int column = 0; column < expected.numFields(); column++) {
        check(row.isNullAt(column) == expected.isNullAt(column), "null in " + column + record);
      }
      if (before != null) { // the row shows another record now; its copy does not
        check(checks.unsafe.apply(before).equals(expectedBefore), "a copy has changed");
      }
      before = row.copy();
      expectedBefore = expected;
    }
  }

  private ConsumerRecord<byte[], byte[]> record(int offset) {
    RecordHeaders headers = new RecordHeaders();
    for (int i = random.nextInt(4); i > 0; i--) {
      headers.add(random.nextBoolean() ? "same" : "é" + i, bytes()); // repeated keys, null values
    }
    String topic = random.nextInt(10) == 0 ? "other.topic_1" : "orders";
    long millis =
        random.nextBoolean() ? MILLIS[random.nextInt(MILLIS.length)] : random.nextLong() >> 16;
    return new ConsumerRecord<>(
        topic, random.nextInt(100), offset, millis, TYPES[random.nextInt(TYPES.length)], 1, 1,
        bytes(), bytes(), headers, Optional.empty());
  }

  private byte[] bytes() {
    if (random.nextInt(4) == 0) {
      return null;
    }
    byte[] found = new byte[random.nextInt(40)];
    random.nextBytes(found);
    return found;
  }
}
