package io.assignorbridge.kafka;

import io.assignorbridge.model.PlannerException;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.deploy.security.HadoopDelegationTokenManager;
import org.apache.spark.kafka010.KafkaConfigUpdater;
import org.apache.spark.kafka010.KafkaTokenClusterConf;
import org.apache.spark.kafka010.KafkaTokenUtil;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Kafka parameters with the delegation token that Spark holds for their cluster, added by the same
 * classes as for Spark's own clients. Never printed: they hold secrets.
 */
public final class SecuredParams {
  /** Settings whose values are hidden: a copy of SECRET_KEYS in `streaming/redaction.py`. */
  private static final Pattern SECRET =
      Pattern.compile(
          "(?i)secret|passw|pwd|passphrase|credential|jaas|username|user\\.info|authorization"
              + "|token(?!\\.endpoint)|oauthbearer\\.(?:client|config|extensions)"
              + "|(?:access|account|private|api|shared|encryption|signing)[._-]?key"
              + "|key\\.pem|keystore\\.key"
              + "|connection[._-]?string|(?:^|[._-])sas(?:$|[._-])");

  /** `user:password@` of an address. */
  private static final Pattern USER_INFO =
      Pattern.compile("(://[^\\s/@:'\"]{0,200}):[^\\s@'\"]{1,500}@");

  /** Parts of a login that are no secrets, and that messages are made of. */
  private static final Set<String> ORDINARY =
      Set.of("username", "password", "required", "true", "false");

  /** What is quoted in a login, its quote may not end; the password after a user. */
  private static final Pattern PART =
      Pattern.compile("\"(?:\\\\.|[^\"\\\\])*\"?|'(?:\\\\.|[^'\\\\])*'?|:[^\\s\"'=]+$");

  private static final int SHORTEST_SECRET = 3;
  private static final int MOST_OF_ERROR = 500; // Kafka names all partitions
  private static final Pattern WORD = Pattern.compile("[\\w.$-]*");

  private final Option<KafkaTokenClusterConf> cluster;
  private final Map<String, Object> params;
  private final boolean tokens;

  public SecuredParams(Map<String, Object> sparkParams) {
    SparkConf conf = SparkEnv.get().conf();
    Object servers = sparkParams.get(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG);
    this.cluster = KafkaTokenUtil.findMatchingTokenClusterConfig(conf, (String) servers);
    this.params =
        KafkaConfigUpdater.apply(
                "assignor", Map$.MODULE$.from(CollectionConverters.asScala(sparkParams)))
            .setAuthenticationConfigIfNeeded(cluster)
            .build();
    this.tokens = HadoopDelegationTokenManager.isServiceEnabled(conf, "kafka");
  }

  public Map<String, Object> params() {
    return params;
  }

  /** Whether Spark has a newer delegation token than the one in these parameters. */
  public boolean isOutdated() {
    return tokens && KafkaTokenUtil.needTokenUpdate(params, cluster);
  }

  /** An address without the password in it. */
  public static String withoutPassword(String text) {
    return USER_INFO.matcher(text).replaceAll("$1:***@");
  }

  /** A message without the secrets among the parameters, nor the words of a misspelt login. */
  public String redact(String message) {
    return redact(message, params);
  }

  /** Whether a setting's value is hidden, by its name. */
  public static boolean isSecret(String name) {
    return SECRET.matcher(name).find();
  }

  static String redact(String message, Map<String, ?> params) {
    String text = withoutPassword(message);
    for (Map.Entry<String, ?> param : params.entrySet()) {
      if (isSecret(param.getKey()) && param.getValue() != null) {
        String value = param.getValue().toString();
        for (Matcher part = PART.matcher(value); part.find(); ) { // a word may be too short alone
          String phrase = part.group().replaceAll("^[\"':]|[\"']$", "");
          text = withoutPhrase(text, phrase);
          text = withoutPhrase(text, phrase.replaceAll("\\\\(.)", "$1")); // as Kafka reads it
        }
        text = withoutPhrase(text, value);
        for (String word : value.split("[^\\w.$-]+")) {
          if (word.length() >= SHORTEST_SECRET && !ORDINARY.contains(word)) {
            text = text.replaceAll("(?<!\\w)" + Pattern.quote(word) + "(?!\\w)", "***");
          }
        }
      }
    }
    return text;
  }

  /** An error of Kafka's with its causes, in one line without secrets; null: no client was made. */
  public static String inWords(Throwable error, SecuredParams params) {
    String why = error.toString();
    for (Throwable e = error.getCause(); e != null; e = e.getCause()) {
      why += ": " + e;
    }
    why = (params == null ? why : params.redact(why)).replaceAll("\\s+", " ");
    return PlannerException.shorten(why, MOST_OF_ERROR);
  }

  private static String withoutPhrase(String text, String secret) {
    boolean isPhrase = secret.length() >= SHORTEST_SECRET && !WORD.matcher(secret).matches();
    return isPhrase ? text.replace(secret, "***") : text;
  }
}
