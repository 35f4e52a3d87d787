package io.assignorbridge.reader;

import java.util.Locale;
import java.util.concurrent.atomic.LongAdder;

/**
 * What the shared readers of this JVM have done since it started. Readable in an executor by a SQL
 * expression: {@code java_method('io.assignorbridge.reader.ReaderCounters', 'json')}.
 */
public final class ReaderCounters {
  static final LongAdder CREATED = new LongAdder();
  static final LongAdder CLOSED = new LongAdder();
  static final LongAdder REPLACED = new LongAdder();
  static final LongAdder POLLS = new LongAdder();
  static final LongAdder SEEKS = new LongAdder();
  static final LongAdder RELEASED = new LongAdder();
  static final LongAdder HANDED_OVER = new LongAdder();
  static final LongAdder RECORDS = new LongAdder();
  static final LongAdder RECORD_BYTES = new LongAdder();
  static final LongAdder CONSUMED_BYTES = new LongAdder();
  static final LongAdder NETWORK_BYTES = new LongAdder();

  private ReaderCounters() {}

  /**
   * The counters as a JSON object. {@code consumedBytes} and {@code networkBytes} come from the
   * metrics of Kafka's client: record bytes that poll returned, bytes that came from the brokers.
   */
  public static String json() {
    Traffic open = ConsumerPool.shared().traffic();
    return String.format(
        Locale.ROOT, // other locales have digits that are no JSON
        "{\"created\":%d,\"closed\":%d,\"replaced\":%d,\"idle\":%d,\"idleBytes\":%d,\"released\":%d,\"polls\":%d,\"seeks\":%d,\"handedOver\":%d,"
            + "\"records\":%d,\"recordBytes\":%d,\"consumedBytes\":%d,\"networkBytes\":%d}",
        CREATED.sum(),
        CLOSED.sum(),
        REPLACED.sum(),
        ConsumerPool.shared().idle(),
        ConsumerPool.shared().idleBytes(),
        RELEASED.sum(),
        POLLS.sum(),
        SEEKS.sum(),
        HANDED_OVER.sum(),
        RECORDS.sum(),
        RECORD_BYTES.sum(),
        CONSUMED_BYTES.sum() + open.consumedBytes(),
        NETWORK_BYTES.sum() + open.networkBytes());
  }
}
