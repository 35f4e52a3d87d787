package io.assignorbridge.reader;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;

/** Counts the bytes received from each broker, from the metrics of Kafka's clients. */
final class ReceivedBytes {
  private static final String NODE_PREFIX = "node-";

  private final Map<Integer, Metric> metricByBroker = new HashMap<>();
  private final Map<Integer, Long> countedBytesByBroker = new HashMap<>();
  private final Map<Integer, Long> newBytesByBroker = new HashMap<>(); // since the last `take`

  /**
   * Adds the bytes that a client has received since the last update.
   *
   * @param incomingBytes bytes that the client has received from all brokers. If they differ from the
   *     sum over the known brokers, there is a new broker; only then are all metrics scanned
   */
  void update(Consumer<?, ?> client, long incomingBytes) {
    if (metricByBroker.values().stream().mapToLong(BoundedConsumer::total).sum() != incomingBytes) {
      client.metrics().forEach(this::addIfBroker);
    }
    metricByBroker.forEach(
        (broker, metric) -> {
          long totalBytes = BoundedConsumer.total(metric);
          Long previousBytes = countedBytesByBroker.put(broker, totalBytes);
          long newBytes = totalBytes - (previousBytes == null ? 0 : previousBytes);
          newBytesByBroker.merge(broker, newBytes, Long::sum);
        });
  }

  /** Forgets the client's totals, because the next update is for a new client. */
  void forgetClient() {
    metricByBroker.clear();
    countedBytesByBroker.clear();
  }

  /** Returns the bytes since the last call, by broker id (negative for bootstrap connections). */
  Map<Integer, Long> take() {
    newBytesByBroker.values().removeIf(bytes -> bytes == 0);
    Map<Integer, Long> takenBytesByBroker = new HashMap<>(newBytesByBroker);
    newBytesByBroker.clear();
    return takenBytesByBroker;
  }

  private void addIfBroker(MetricName name, Metric metric) {
    if (name.name().equals("incoming-byte-total") && name.group().equals("consumer-node-metrics")) {
      String nodeId = name.tags().getOrDefault("node-id", "");
      if (nodeId.matches(NODE_PREFIX + "-?\\d{1,9}")) { // larger ids are group coordinators
        metricByBroker.put(Integer.parseInt(nodeId.substring(NODE_PREFIX.length())), metric);
      }
    }
  }
}
