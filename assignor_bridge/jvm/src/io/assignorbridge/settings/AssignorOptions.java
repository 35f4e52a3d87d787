package io.assignorbridge.settings;

import io.assignorbridge.kafka.SecuredParams;
import io.assignorbridge.model.PlannerException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of one stream as the user wrote them; the planner interprets them.
 *
 * @param values the source's options `assignor` and `assignor.*` (or else the session's
 *     `spark.assignor.*`), and the Spark options that the planner needs
 * @param kafkaSettings settings of the stream's Kafka client, without the prefix `kafka.`; they may
 *     contain secrets
 * @param ambiguousSettings session settings that exist twice, with different case and values, unless
 *     the source sets them. Spark treats them as two settings, assignor-bridge as one
 */
public record AssignorOptions(
    Map<String, String> values,
    Map<String, String> kafkaSettings,
    Interpreter interpreter,
    List<String> ambiguousSettings) {
  public static final String NAME = "assignor";
  private static final String SESSION_PREFIX = "spark.assignor.";
  private static final String PREFIX = NAME + ".";
  private static final String KAFKA_PREFIX = "kafka.";
  public static final String SESSION_NAME = SESSION_PREFIX + "strategy";
  private static final List<String> SPARK_OPTIONS =
      List.of("minPartitions", "maxRecordsPerPartition");

  /** Prefixes of options that limit batches, without `assignor.` and in lower case. */
  private static final List<String> LIMITING_PREFIXES =
      List.of(
          "targetbatchseconds", "maxbytespertrigger", "fairness", "weight.", "floor.", "aligneventtime");
  /** Spark options that the planner also needs if options of assignor-bridge limit batches. */
  private static final List<String> SPARK_OPTIONS_FOR_LIMITS =
      List.of("maxOffsetsPerTrigger", "subscribe", "assign");

  /** Built-in assignors, a copy of Python's `options.BUILT_IN`. Other names refer to user code. */
  private static final Set<String> BUILT_IN =
      Set.of(
          "range", "roundrobin", "sticky", "cooperative-sticky", "constrained-cooperative-sticky",
          "uniform", "lag-aware", "lag-aware-sticky", "failover", "streams");

  private static final String NONE = "none"; // leaves the stream to Spark

  /** Returns whether `assignor` is set, by the source or else its session, and is not "none". */
  public static boolean hasAssignor(
      CaseInsensitiveStringMap source, scala.collection.immutable.Map<String, String> session) {
    String name = source.get(NAME);
    if (name == null && session.contains(SESSION_NAME)) {
      name = session.apply(SESSION_NAME);
    }
    return name != null && !strip(name).equalsIgnoreCase(NONE);
  }

  /** Collects the options of a stream; the source's options take precedence over the session's. */
  public static AssignorOptions of(CaseInsensitiveStringMap source, Map<String, String> session) {
    Map<String, String> values = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    Map<String, String> kafkaSettings = new TreeMap<>();
    List<String> ambiguousSettings = new ArrayList<>();
    session.forEach(
        (key, value) -> {
          if (key.equals(SESSION_NAME)) {
            values.put(NAME, value);
          } else if (key.startsWith(SESSION_PREFIX)
              && !Interpreter.SETTINGS.contains(key)
              && !KillSwitch.SETTINGS.contains(key)) {
            String name = PREFIX + key.substring(SESSION_PREFIX.length());
            String earlierValue = values.put(name, value);
            if (earlierValue != null && !earlierValue.equals(value) && source.get(name) == null) {
              ambiguousSettings.add(key);
            }
          }
        });
    source
        .asCaseSensitiveMap()
        .forEach(
            (key, value) -> {
              String lowerKey = key.toLowerCase(Locale.ROOT);
              if (value == null) { // Python's None means unset
                return;
              }
              if (lowerKey.startsWith(KAFKA_PREFIX)) {
                kafkaSettings.put(lowerKey.substring(KAFKA_PREFIX.length()), value);
              } else if (lowerKey.equals(NAME) || lowerKey.startsWith(PREFIX)) {
                values.remove(key); // so that messages use the source's spelling
                values.put(key, value);
              }
            });
    List<String> sparkOptions = new ArrayList<>(SPARK_OPTIONS);
    AssignorOptions options =
        new AssignorOptions(values, kafkaSettings, Interpreter.of(session), ambiguousSettings);
    if (options.limitsBatches()) {
      sparkOptions.addAll(SPARK_OPTIONS_FOR_LIMITS);
    }
    for (String key : sparkOptions) {
      if (source.get(key) != null) {
        values.put(key, source.get(key));
      }
    }
    return options;
  }

  public void rejectAmbiguousSettings() throws PlannerException {
    if (!ambiguousSettings.isEmpty()) {
      String key = ambiguousSettings.get(0);
      throw new PlannerException(
          "option '" + key + "' is set twice, in different case: keep one of the two", true, null);
    }
  }

  @Override
  public String toString() {
    return "AssignorOptions" + valuesToLog();
  }

  /** Returns the options for logs, with the secrets of custom assignors masked. */
  public Map<String, String> valuesToLog() {
    Map<String, String> maskedValues = new TreeMap<>(values);
    maskedValues.replaceAll((key, value) -> isSecret(key) ? "***" : value);
    return maskedValues;
  }

  private static boolean isSecret(String key) {
    String lowerKey = key.toLowerCase(Locale.ROOT);
    boolean isOfTopic = lowerKey.startsWith(PREFIX + "weight.") || lowerKey.startsWith(PREFIX + "floor.");
    return !isOfTopic && SecuredParams.isSecret(key);
  }

  /** Returns whether any option that limits batches is set, even to an invalid value. */
  public boolean limitsBatches() {
    return values.keySet().stream()
        .map(key -> key.toLowerCase(Locale.ROOT))
        .anyMatch(key -> LIMITING_PREFIXES.stream().anyMatch(name -> key.startsWith(PREFIX + name)));
  }

  /** Returns whether the stream uses an assignor that is not built in. */
  public boolean usesCustomAssignor() {
    return !Stream.of(values.getOrDefault(NAME, "").split(",", -1))
        .map(AssignorOptions::strip)
        .allMatch(name -> name.isEmpty() || BUILT_IN.contains(name));
  }

  /** Returns whether `assignor.onError` is "fail", for use before the planner has validated it. */
  public boolean failOnError() {
    return strip(values.getOrDefault(PREFIX + "onError", "")).equalsIgnoreCase("fail");
  }

  /** Strips the characters that Python considers white space. */
  private static String strip(String text) {
    return text.replaceAll("(?U)^[\\s\\x1c-\\x1f]+|[\\s\\x1c-\\x1f]+$", "");
  }
}
