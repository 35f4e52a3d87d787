package io.assignorbridge.reader;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;

/**
 * Counters of this JVM's shared readers since it started. In an executor, read them with the SQL
 * expression {@code java_method('io.assignorbridge.reader.ReaderCounters', 'json')}.
 */
public final class ReaderCounters {
  private static final Map<String, LongAdder> ALL = new LinkedHashMap<>();

  static final LongAdder CREATED_CLIENTS = addCounter("created");
  static final LongAdder CLOSED_CLIENTS = addCounter("closed");
  static final LongAdder REPLACED_CLIENTS = addCounter("replaced");
  static final LongAdder RELEASED_CONSUMERS = addCounter("released");
  static final LongAdder POLLS = addCounter("polls");
  static final LongAdder SEEKS = addCounter("seeks");
  static final LongAdder HANDED_OVER_RANGES = addCounter("handedOver");
  static final LongAdder RECORDS = addCounter("records");
  static final LongAdder RECORD_BYTES = addCounter("recordBytes");

  // From the metrics of Kafka's client:
  static final LongAdder CONSUMED_BYTES = addCounter("consumedBytes"); // of polled records
  static final LongAdder NETWORK_BYTES = addCounter("networkBytes"); // from brokers

  private ReaderCounters() {}

  private static LongAdder addCounter(String name) {
    return ALL.computeIfAbsent(name, n -> new LongAdder());
  }

  /** Returns the counters and the number and bytes of idle consumers as a JSON object. */
  public static String json() {
    Map<String, Long> values = new LinkedHashMap<>();
    ALL.forEach((name, counter) -> values.put(name, counter.sum()));
    values.put("idle", (long) ConsumerPool.shared().countIdle());
    values.put("idleBytes", ConsumerPool.shared().idleBytes());
    return values.entrySet().stream()
        .map(entry -> "\"" + entry.getKey() + "\":" + entry.getValue())
        .collect(Collectors.joining(",", "{", "}"));
  }
}
