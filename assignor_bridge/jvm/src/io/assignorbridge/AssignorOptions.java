package io.assignorbridge;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of one stream: `assignor` and `assignor.*` of the source over the session's
 * `spark.assignor.*`, and the few of Spark's that the planner must know. Values are checked by the
 * planner, not here. Nothing else reaches the planner process; `kafka.*` goes only to the process
 * that commits to a group, when there is one.
 */
final class AssignorOptions {
  static final String NAME = "assignor";
  private static final String PREFIX = NAME + ".";
  private static final String KAFKA_PREFIX = "kafka.";
  private static final String SESSION_PREFIX = "spark.assignor.";
  private static final String SESSION_NAME = SESSION_PREFIX + "strategy";
  private static final String SESSION_PYTHON = SESSION_PREFIX + "python";
  private static final List<String> OF_SPARK = List.of("minPartitions", "maxRecordsPerPartition");
  private static final long DEFAULT_TIMEOUT_MS = 10_000;

  private final Map<String, String> values;
  private final Map<String, String> kafka;
  private final String python;

  private AssignorOptions(
      Map<String, String> values, Map<String, String> kafka, String python) {
    this.values = values;
    this.kafka = kafka;
    this.python = python;
  }

  static boolean namesAssignor(
      CaseInsensitiveStringMap source, scala.collection.immutable.Map<String, String> session) {
    return source.containsKey(NAME) || session.contains(SESSION_NAME);
  }

  static AssignorOptions of(CaseInsensitiveStringMap source, Map<String, String> session) {
    Map<String, String> merged = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    session.forEach(
        (key, value) -> {
          if (key.equals(SESSION_NAME)) {
            merged.put(NAME, value);
          } else if (key.startsWith(SESSION_PREFIX) && !key.equals(SESSION_PYTHON)) {
            merged.put(PREFIX + key.substring(SESSION_PREFIX.length()), value);
          }
        });
    Map<String, String> kafka = new TreeMap<>();
    source
        .asCaseSensitiveMap()
        .forEach(
            (key, value) -> {
              String lower = key.toLowerCase(Locale.ROOT);
              if (lower.startsWith(KAFKA_PREFIX)) {
                kafka.put(key.substring(KAFKA_PREFIX.length()), value);
              }
              if (lower.equals(NAME) || lower.startsWith(PREFIX)) {
                merged.remove(key); // so that the source's own spelling is the one in messages
                merged.put(key, value);
              }
            });
    for (String key : OF_SPARK) {
      if (source.containsKey(key)) {
        merged.put(key, source.get(key));
      }
    }
    return new AssignorOptions(merged, kafka, pythonOf(session));
  }

  Map<String, String> values() {
    return values;
  }

  /** Settings of the stream's Kafka client, secrets among them: for commits only, never logged. */
  Map<String, String> kafka() {
    return kafka;
  }

  /** The consumer group that completed batches are committed to; null for none. */
  String commitGroup() {
    String group = values.get(PREFIX + "commitGroup");
    return group == null ? null : group.trim();
  }

  /** Interpreter of the planner process. */
  String python() {
    return python;
  }

  boolean failsOnError() {
    return "fail".equalsIgnoreCase(values.get(PREFIX + "onError"));
  }

  boolean sharesReader() {
    return !"spark".equalsIgnoreCase(values.get(PREFIX + "reader"));
  }

  /** How long the planner may take for an answer; a value that is no number is refused elsewhere. */
  long planTimeoutMs() {
    try {
      return Long.parseLong(values.getOrDefault(PREFIX + "planTimeoutMs", "").trim());
    } catch (NumberFormatException unset) {
      return DEFAULT_TIMEOUT_MS;
    }
  }

  private static String pythonOf(Map<String, String> session) {
    String[] candidates = {
      session.get(SESSION_PYTHON),
      session.get("spark.pyspark.driver.python"),
      session.get("spark.pyspark.python"),
      System.getenv("PYSPARK_DRIVER_PYTHON"),
      System.getenv("PYSPARK_PYTHON"),
    };
    for (String candidate : candidates) {
      if (candidate != null && !candidate.isBlank() && isInterpreter(candidate)) {
        return candidate;
      }
    }
    return "python3";
  }

  /** Notebook users set PYSPARK_DRIVER_PYTHON to jupyter or ipython: those run no modules for us. */
  private static boolean isInterpreter(String command) {
    String name = command.substring(command.lastIndexOf('/') + 1);
    return !name.startsWith("jupyter") && !name.startsWith("ipython");
  }
}
