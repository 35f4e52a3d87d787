package io.assignorbridge;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;

/**
 * Tells a reader in which rack it runs, on the executor: what the driver knows, else what the
 * environment says. A variable that the driver cannot see (`assignor.rack=env:NAME`) is reported to it,
 * and so is what readers received.
 */
final class ReaderRacks implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String VARIABLE = "SPARK_EXECUTOR_ATTRIBUTE_RACK";

  /** An executor's own word. */
  record Report(String executor, String rack) implements Serializable {}

  private final String variable; // null where the driver sees all that executors know
  private final HashMap<String, String> byExecutor;

  @SuppressWarnings("serial") // accumulators are serializable
  private final Reports<Report> reports;

  @SuppressWarnings("serial") // the same
  private final Reports<CrossZoneBytes.Received> received;

  ReaderRacks(
      String variable,
      Reports<Report> reports,
      Reports<CrossZoneBytes.Received> received,
      Iterable<ExecutorList.Executor> executors) {
    this.variable = variable;
    this.reports = reports;
    this.received = received;
    byExecutor = new HashMap<>();
    executors.forEach(e -> byExecutor.put(e.id(), e.rack()));
  }

  /** Where the executor of this id is, asked on it; null: unknown. */
  String at(String executor) {
    String known = byExecutor.get(executor);
    String own = variable == null ? null : named(System.getenv(variable));
    if (own != null && !own.equals(known)) {
      reports.add(new Report(executor, own));
    }
    if (known != null) {
      return known;
    }
    return own == null ? named(System.getenv(VARIABLE)) : own;
  }

  /** A reader in this rack has received bytes, by id of broker. */
  void received(String rack, Map<Integer, Long> bytes) {
    received.add(new CrossZoneBytes.Received(rack, bytes));
  }

  /** Null for a name that is blank, as of a variable that is set to nothing. */
  static String named(String rack) {
    return rack == null || rack.isBlank() ? null : rack.strip();
  }
}
