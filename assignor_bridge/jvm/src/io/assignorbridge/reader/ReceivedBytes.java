package io.assignorbridge.reader;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;

/** Counts the bytes received from each broker, from the metrics of Kafka's clients. */
final class ReceivedBytes {
  private static final String NODE_PREFIX = "node-";

  private final Map<Integer, Metric> totals = new HashMap<>(); // by broker id
  private final Map<Integer, Long> countedBytes = new HashMap<>();
  private final Map<Integer, Long> untakenBytes = new HashMap<>();

  /**
   * Adds the bytes that a client has received since the last update.
   *
   * @param incoming bytes that the client has received from all brokers. If they differ from the
   *     sum over the known brokers, there is a new broker; only then are all metrics scanned
   */
  void update(Consumer<?, ?> client, long incoming) {
    if (totals.values().stream().mapToLong(BoundedConsumer::total).sum() != incoming) {
      client.metrics().forEach(this::addIfBroker);
    }
    totals.forEach(
        (broker, metric) -> {
          long totalBytes = BoundedConsumer.total(metric);
          Long previousBytes = countedBytes.put(broker, totalBytes);
          untakenBytes.merge(broker, totalBytes - (previousBytes == null ? 0 : previousBytes), Long::sum);
        });
  }

  /** Forgets the client's totals, because the next update is for a new client. */
  void forgetClient() {
    totals.clear();
    countedBytes.clear();
  }

  /** Returns the bytes since the last call, by broker id (negative for bootstrap connections). */
  Map<Integer, Long> take() {
    untakenBytes.values().removeIf(bytes -> bytes == 0);
    Map<Integer, Long> taken = new HashMap<>(untakenBytes);
    untakenBytes.clear();
    return taken;
  }

  private void addIfBroker(MetricName name, Metric metric) {
    if (name.name().equals("incoming-byte-total") && name.group().equals("consumer-node-metrics")) {
      String node = name.tags().getOrDefault("node-id", "");
      if (node.matches(NODE_PREFIX + "-?\\d{1,9}")) { // larger ids are group coordinators
        totals.put(Integer.parseInt(node.substring(NODE_PREFIX.length())), metric);
      }
    }
  }
}
