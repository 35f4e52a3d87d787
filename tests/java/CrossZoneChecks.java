package io.assignorbridge.cluster;

import io.assignorbridge.cluster.ExecutorRacks.TaskTraffic;
import io.assignorbridge.cluster.Zones.CrossZoneBytes;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What is told of bytes across zones, as far as racks are known; called by the reader's checks. */
public final class CrossZoneChecks {
  private CrossZoneChecks() {}

  public static void run() {
    CrossZoneBytes bytes = new CrossZoneBytes();
    Map<Integer, String> racks = Map.of(1, "a", 2, "b");
    told(bytes, racks, Map.of());
    bytes.add(List.of(new TaskTraffic("a", Map.of(1, 60L, 2, 20L, 3, 7L, -1, 1L))));
    bytes.add(List.of(new TaskTraffic("b", Map.of(2, 20L))));
    told(bytes, Map.of(), Map.of("receivedBytes", "108"));
    Map<String, String> first =
        Map.of("receivedBytes", "108", "crossZoneBytes", "20", "crossZoneShare", "0.2000");
    told(bytes, racks, first);
    told(bytes, racks, first); // an idle trigger
    bytes.beginBatch();
    told(bytes, racks, Map.of("receivedBytes", "108", "crossZoneBytes", "20"));
    bytes.add(List.of(new TaskTraffic("b", Map.of(1, 3L, 2, 1L)), new TaskTraffic("b", Map.of())));
    told(
        bytes,
        racks,
        Map.of("receivedBytes", "112", "crossZoneBytes", "23", "crossZoneShare", "0.7500"));
    bytes.beginBatch();
    Map<String, String> sinceThen = Map.of("receivedBytes", "112", "crossZoneBytes", "23");
    told(bytes, Map.of(2, "b"), sinceThen); // a broker whose rack is no longer known
    told(bytes, Map.of(1, "b", 2, "b"), sinceThen); // or another one
  }

  private static void told(
      CrossZoneBytes bytes, Map<Integer, String> racks, Map<String, String> expected) {
    Map<String, String> all = new TreeMap<>();
    expected.forEach((name, value) -> all.put("assignor." + name, value));
    if (!bytes.metrics(racks).equals(all)) {
      throw new AssertionError(bytes.metrics(racks) + ", not " + all);
    }
  }
}
