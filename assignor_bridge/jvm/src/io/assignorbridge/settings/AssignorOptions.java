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
 * The options of one stream, as they were written; what they mean, the planner says.
 *
 * @param values `assignor` and `assignor.*` of the source over the session's `spark.assignor.*`, and
 *     the few of Spark's that the planner must know: nothing else reaches its process
 * @param kafka settings of the stream's Kafka client, as Spark reads them; secrets among them
 * @param twice settings that the session has in two spellings and with two values, where the source has none:
 *     to Spark they are two, to us one
 */
public record AssignorOptions(
    Map<String, String> values,
    Map<String, String> kafka,
    Interpreter interpreter,
    List<String> twice) {
  public static final String NAME = "assignor";
  private static final String SESSION_PREFIX = "spark.assignor.";
  private static final String PREFIX = NAME + ".";
  private static final String KAFKA_PREFIX = "kafka.";
  public static final String SESSION_NAME = SESSION_PREFIX + "strategy";
  private static final List<String> OF_SPARK = List.of("minPartitions", "maxRecordsPerPartition");

  /** With one of these, the planner says how far a batch goes, and must know of these of Spark's. */
  private static final List<String> LIMITING =
      List.of(
          "targetbatchseconds", "maxbytespertrigger", "fairness", "weight.", "floor.", "aligneventtime");
  private static final List<String> OF_LIMITS = List.of("maxOffsetsPerTrigger", "subscribe", "assign");

  /** Names of `options.BUILT_IN`; any other is code that the user brings. A test compares. */
  private static final Set<String> BUILT_IN =
      Set.of(
          "range", "roundrobin", "sticky", "cooperative-sticky", "constrained-cooperative-sticky",
          "uniform", "lag-aware", "lag-aware-sticky", "failover", "streams");

  /** In place of an assignor's name: leave this stream to Spark. */
  private static final String NONE = "none";

  /** Whether the source, or else its session, names an assignor other than "none". */
  public static boolean nameAssignor(
      CaseInsensitiveStringMap source, scala.collection.immutable.Map<String, String> session) {
    String name = source.get(NAME);
    if (name == null && session.contains(SESSION_NAME)) {
      name = session.apply(SESSION_NAME);
    }
    return name != null && !stripped(name).equalsIgnoreCase(NONE);
  }

  public static AssignorOptions of(CaseInsensitiveStringMap source, Map<String, String> session) {
    Map<String, String> values = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    Map<String, String> kafka = new TreeMap<>();
    List<String> twice = new ArrayList<>();
    session.forEach(
        (key, value) -> {
          if (key.equals(SESSION_NAME)) {
            values.put(NAME, value);
          } else if (key.startsWith(SESSION_PREFIX)
              && !Interpreter.SETTINGS.contains(key)
              && !KillSwitch.SETTINGS.contains(key)) {
            String name = PREFIX + key.substring(SESSION_PREFIX.length());
            String other = values.put(name, value);
            if (other != null && !other.equals(value) && source.get(name) == null) {
              twice.add(key);
            }
          }
        });
    source
        .asCaseSensitiveMap()
        .forEach(
            (key, value) -> {
              String lower = key.toLowerCase(Locale.ROOT);
              if (value == null) { // Python's None: as if it were not there
                return;
              }
              if (lower.startsWith(KAFKA_PREFIX)) {
                kafka.put(lower.substring(KAFKA_PREFIX.length()), value);
              } else if (lower.equals(NAME) || lower.startsWith(PREFIX)) {
                values.remove(key); // so that the source's own spelling is the one in messages
                values.put(key, value);
              }
            });
    List<String> known = new ArrayList<>(OF_SPARK);
    AssignorOptions options = new AssignorOptions(values, kafka, Interpreter.of(session), twice);
    if (options.limitBatches()) {
      known.addAll(OF_LIMITS);
    }
    for (String key : known) {
      if (source.get(key) != null) {
        values.put(key, source.get(key));
      }
    }
    return options;
  }

  /** Fails for a setting of the session whose value is not one. */
  public void checkSpelling() throws PlannerException {
    if (!twice.isEmpty()) {
      String key = twice.get(0);
      throw new PlannerException(
          "option '" + key + "' is given twice, also with other capital letters", true, null);
    }
  }

  @Override
  public String toString() {
    return "AssignorOptions" + valuesToLog();
  }

  /** The values as they may be written down: without what is secret of a user's own assignor. */
  public Map<String, String> valuesToLog() {
    Map<String, String> shown = new TreeMap<>(values);
    shown.replaceAll((key, value) -> isSecret(key) ? "***" : value);
    return shown;
  }

  private static boolean isSecret(String key) {
    String lower = key.toLowerCase(Locale.ROOT);
    boolean isOfTopic = lower.startsWith(PREFIX + "weight.") || lower.startsWith(PREFIX + "floor.");
    return !isOfTopic && SecuredParams.isSecret(key);
  }

  /** Whether any option of limited batches is there, good or bad. */
  public boolean limitBatches() {
    return values.keySet().stream()
        .map(key -> key.toLowerCase(Locale.ROOT))
        .anyMatch(key -> LIMITING.stream().anyMatch(name -> key.startsWith(PREFIX + name)));
  }

  /** Whether it takes more than our own assignors to plan the stream. */
  public boolean bringsAssignor() {
    return !Stream.of(values.getOrDefault(NAME, "").split(",", -1))
        .map(AssignorOptions::stripped)
        .allMatch(name -> name.isEmpty() || BUILT_IN.contains(name));
  }

  /** Needed when no planner can be asked; whatever else is written here, the planner refuses it. */
  public boolean failOnError() {
    return stripped(values.getOrDefault(PREFIX + "onError", "")).equalsIgnoreCase("fail");
  }

  /** Without the white space around it, by Python's notion of that. */
  private static String stripped(String text) {
    return text.replaceAll("(?U)^[\\s\\x1c-\\x1f]+|[\\s\\x1c-\\x1f]+$", "");
  }
}
