package io.assignorbridge.reader;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;

/** How many bytes came over the network from each broker, by the metrics of Kafka's clients. */
final class ReceivedBytes {
  private static final String NODE = "node-";

  private final Map<Integer, Metric> totals = new HashMap<>(); // of the client, by id of broker
  private final Map<Integer, Long> counted = new HashMap<>();
  private final Map<Integer, Long> untaken = new HashMap<>();

  /**
   * Counts what a client has received since it was counted before.
   *
   * @param incoming what it has received from all brokers; more than from those that are known here
   *     means that there is another one, and only then all of its metrics are gone through
   */
  void update(Consumer<?, ?> client, long incoming) {
    if (totals.values().stream().mapToLong(BoundedConsumer::total).sum() != incoming) {
      client.metrics().forEach(this::note);
    }
    totals.forEach(
        (broker, metric) -> {
          long now = BoundedConsumer.total(metric);
          Long before = counted.put(broker, now);
          untaken.merge(broker, now - (before == null ? 0 : before), Long::sum);
        });
  }

  /** From now on another client is counted, from its beginning. */
  void forgetClient() {
    totals.clear();
    counted.clear();
  }

  /** What was counted since the last call, by id of broker; below 0: before ids were known. */
  Map<Integer, Long> take() {
    untaken.values().removeIf(bytes -> bytes == 0);
    Map<Integer, Long> taken = new HashMap<>(untaken);
    untaken.clear();
    return taken;
  }

  private void note(MetricName name, Metric metric) {
    if (name.name().equals("incoming-byte-total") && name.group().equals("consumer-node-metrics")) {
      String node = name.tags().getOrDefault("node-id", "");
      if (node.matches(NODE + "-?\\d{1,9}")) { // larger ones: the coordinator of a group
        totals.put(Integer.parseInt(node.substring(NODE.length())), metric);
      }
    }
  }
}
