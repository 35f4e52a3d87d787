package io.assignorbridge.reader;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;

/** Counts the bytes received from each broker, from the metrics of Kafka's clients. */
final class ReceivedBytes {
  private static final String NODE_PREFIX = "node-";

  private final Map<Integer, Metric> brokerMetrics = new HashMap<>(); // by broker id
  private final Map<Integer, Long> countedBytes = new HashMap<>();
  private final Map<Integer, Long> newBytes = new HashMap<>(); // since the last `take`

  /**
   * Adds the bytes that a client has received since the last update.
   *
   * @param incomingBytes bytes that the client has received from all brokers. If they differ from the
   *     sum over the known brokers, there is a new broker; only then are all metrics scanned
   */
  void update(Consumer<?, ?> client, long incomingBytes) {
    if (brokerMetrics.values().stream().mapToLong(BoundedConsumer::total).sum() != incomingBytes) {
      client.metrics().forEach(this::addIfBroker);
    }
    brokerMetrics.forEach(
        (broker, metric) -> {
          long totalBytes = BoundedConsumer.total(metric);
          Long previousBytes = countedBytes.put(broker, totalBytes);
          newBytes.merge(broker, totalBytes - (previousBytes == null ? 0 : previousBytes), Long::sum);
        });
  }

  /** Forgets the client's totals, because the next update is for a new client. */
  void forgetClient() {
    brokerMetrics.clear();
    countedBytes.clear();
  }

  /** Returns the bytes since the last call, by broker id (negative for bootstrap connections). */
  Map<Integer, Long> take() {
    newBytes.values().removeIf(bytes -> bytes == 0);
    Map<Integer, Long> takenBytes = new HashMap<>(newBytes);
    newBytes.clear();
    return takenBytes;
  }

  private void addIfBroker(MetricName name, Metric metric) {
    if (name.name().equals("incoming-byte-total") && name.group().equals("consumer-node-metrics")) {
      String node = name.tags().getOrDefault("node-id", "");
      if (node.matches(NODE_PREFIX + "-?\\d{1,9}")) { // larger ids are group coordinators
        brokerMetrics.put(Integer.parseInt(node.substring(NODE_PREFIX.length())), metric);
      }
    }
  }
}
