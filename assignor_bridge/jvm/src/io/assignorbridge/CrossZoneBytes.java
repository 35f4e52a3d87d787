package io.assignorbridge;

import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * Bytes that readers received from brokers in other racks. They wait, by the reader's rack and the
 * broker, until it is known where the broker is; what is counted then stays counted. Unknown is
 * unknown: bytes of which one end has no rack neither cross nor stay.
 */
final class CrossZoneBytes {
  /** What one task received over the network, by id of broker. */
  record Received(String rack, Map<Integer, Long> bytes) implements Serializable {}

  private record Way(String rack, int broker) {}

  private final Map<Way, Long> waiting = new HashMap<>();
  private final Map<Way, Long> ofBatch = new HashMap<>();
  private boolean hasReaders;
  private long received;
  private long located;
  private long crossed;

  void begin() {
    ofBatch.clear();
  }

  void add(List<Received> tasks) {
    for (Received task : tasks) {
      task.bytes()
          .forEach(
              (broker, bytes) -> {
                hasReaders = true;
                received += bytes;
                waiting.merge(new Way(task.rack(), broker), bytes, Long::sum);
                ofBatch.merge(new Way(task.rack(), broker), bytes, Long::sum);
              });
    }
  }

  /** `racks` are the brokers', by id; nothing while no reader knows where it is. */
  Map<String, String> metrics(Map<Integer, String> racks) {
    located += sum(waiting, racks, false);
    crossed += sum(waiting, racks, true);
    waiting.keySet().removeIf(way -> racks.containsKey(way.broker()));
    Map<String, String> all = new TreeMap<>();
    if (hasReaders) {
      all.put("assignor.receivedBytes", Long.toString(received));
    }
    if (located > 0) {
      all.put("assignor.crossZoneBytes", Long.toString(crossed));
    }
    long known = sum(ofBatch, racks, false);
    if (known > 0) {
      double share = sum(ofBatch, racks, true) / (double) known;
      all.put("assignor.crossZoneShare", String.format(Locale.ROOT, "%.4f", share));
    }
    return all;
  }

  /** Of brokers with a known rack; `crossing`: only of those in another rack than the reader. */
  private static long sum(Map<Way, Long> bytes, Map<Integer, String> racks, boolean crossing) {
    return bytes.entrySet().stream()
        .filter(
            one -> {
              String rack = racks.get(one.getKey().broker());
              return rack != null && !(crossing && rack.equals(one.getKey().rack()));
            })
        .mapToLong(Map.Entry::getValue)
        .sum();
  }
}
