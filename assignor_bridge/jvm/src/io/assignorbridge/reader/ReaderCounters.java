package io.assignorbridge.reader;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;

/**
 * What the shared readers of this JVM have done since it started. Readable in an executor by a SQL
 * expression: {@code java_method('io.assignorbridge.reader.ReaderCounters', 'json')}.
 */
public final class ReaderCounters {
  private static final Map<String, LongAdder> ALL = new LinkedHashMap<>();

  static final LongAdder CREATED = counter("created");
  static final LongAdder CLOSED = counter("closed");
  static final LongAdder REPLACED = counter("replaced");
  static final LongAdder RELEASED = counter("released");
  static final LongAdder POLLS = counter("polls");
  static final LongAdder SEEKS = counter("seeks");
  static final LongAdder HANDED_OVER = counter("handedOver");
  static final LongAdder RECORDS = counter("records");
  static final LongAdder RECORD_BYTES = counter("recordBytes");

  /** By the metrics of Kafka's client: bytes of polled records, bytes that came from the brokers. */
  static final LongAdder CONSUMED_BYTES = counter("consumedBytes");

  static final LongAdder NETWORK_BYTES = counter("networkBytes");

  private ReaderCounters() {}

  private static LongAdder counter(String name) {
    return ALL.computeIfAbsent(name, any -> new LongAdder());
  }

  /** The counters, with the number and bytes of idle consumers, as a JSON object. */
  public static String json() {
    Map<String, Long> values = new LinkedHashMap<>();
    ALL.forEach((name, counter) -> values.put(name, counter.sum()));
    values.put("idle", (long) ConsumerPool.shared().countIdle());
    values.put("idleBytes", ConsumerPool.shared().idleBytes());
    return values.entrySet().stream()
        .map(one -> "\"" + one.getKey() + "\":" + one.getValue())
        .collect(Collectors.joining(",", "{", "}"));
  }
}
