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
 * Kafka parameters with Spark's delegation token for the cluster, added by the classes that Spark
 * uses for its own clients. They contain secrets, so never print them.
 */
public final class SecuredParams {
  /** Names of masked settings; a copy of SECRET_KEYS in `streaming/redaction.py`. */
  private static final Pattern SECRET_NAME =
      Pattern.compile(
          "(?i)secret|passw|pwd|passphrase|credential|jaas|username|user\\.info|authorization"
              + "|token(?!\\.endpoint)|oauthbearer\\.(?:client|config|extensions)"
              + "|(?:access|account|private|api|shared|encryption|signing)[._-]?key"
              + "|key\\.pem|keystore\\.key"
              + "|connection[._-]?string|(?:^|[._-])sas(?:$|[._-])");

  /** Matches `://user:password@` in an address. */
  private static final Pattern USER_INFO =
      Pattern.compile("(://[^\\s/@:'\"]{0,200}):[^\\s@'\"]{1,500}@");

  /** JAAS words that are not secret and also occur in normal messages. */
  private static final Set<String> ORDINARY_WORDS =
      Set.of("username", "password", "required", "true", "false");

  /** Matches quoted JAAS text, even if it is unterminated, and a password after `user:`. */
  private static final Pattern SECRET_PART =
      Pattern.compile("\"(?:\\\\.|[^\"\\\\])*\"?|'(?:\\\\.|[^'\\\\])*'?|:[^\\s\"'=]+$");

  private static final int MIN_SECRET_CHARS = 3;
  private static final int MAX_ERROR_CHARS = 500; // Kafka may list all partitions
  private static final Pattern WORD = Pattern.compile("[\\w.$-]*");

  private final Option<KafkaTokenClusterConf> cluster;
  private final Map<String, Object> params;
  private final boolean usesTokens;

  public SecuredParams(Map<String, Object> sparkParams) {
    SparkConf conf = SparkEnv.get().conf();
    Object servers = sparkParams.get(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG);
    this.cluster = KafkaTokenUtil.findMatchingTokenClusterConfig(conf, (String) servers);
    this.params =
        KafkaConfigUpdater.apply(
                "assignor", Map$.MODULE$.from(CollectionConverters.asScala(sparkParams)))
            .setAuthenticationConfigIfNeeded(cluster)
            .build();
    this.usesTokens = HadoopDelegationTokenManager.isServiceEnabled(conf, "kafka");
  }

  public Map<String, Object> params() {
    return params;
  }

  /** Returns whether Spark has a newer delegation token than the one in these parameters. */
  public boolean isOutdated() {
    return usesTokens && KafkaTokenUtil.needTokenUpdate(params, cluster);
  }

  /** Masks the password of each `://user:password@` in a text. */
  public static String maskPassword(String text) {
    return USER_INFO.matcher(text).replaceAll("$1:***@");
  }

  /** Masks address passwords, and the values of secret parameters, even of malformed JAAS text. */
  public String redact(String message) {
    return redact(message, params);
  }

  /** Returns whether the value of the setting with this name is masked. */
  public static boolean isSecret(String name) {
    return SECRET_NAME.matcher(name).find();
  }

  static String redact(String message, Map<String, ?> params) {
    String text = maskPassword(message);
    for (Map.Entry<String, ?> param : params.entrySet()) {
      if (isSecret(param.getKey()) && param.getValue() != null) {
        String value = param.getValue().toString();
        for (Matcher part = SECRET_PART.matcher(value); part.find(); ) { // phrases, then words
          String phrase = part.group().replaceAll("^[\"':]|[\"']$", "");
          text = maskPhrase(text, phrase);
          text = maskPhrase(text, phrase.replaceAll("\\\\(.)", "$1")); // unescaped
        }
        text = maskPhrase(text, value);
        for (String word : value.split("[^\\w.$-]+")) {
          if (word.length() >= MIN_SECRET_CHARS && !ORDINARY_WORDS.contains(word)) {
            text = text.replaceAll("(?<!\\w)" + Pattern.quote(word) + "(?!\\w)", "***");
          }
        }
      }
    }
    return text;
  }

  /** Returns an error with its causes on one short line; masks the secrets of `params` if given. */
  public static String describe(Throwable error, SecuredParams params) {
    String text = error.toString();
    for (Throwable e = error.getCause(); e != null; e = e.getCause()) {
      text += ": " + e;
    }
    text = (params == null ? text : params.redact(text)).replaceAll("\\s+", " ");
    return PlannerException.shorten(text, MAX_ERROR_CHARS);
  }

  private static String maskPhrase(String text, String secret) {
    boolean isPhrase = secret.length() >= MIN_SECRET_CHARS && !WORD.matcher(secret).matches();
    return isPhrase ? text.replace(secret, "***") : text;
  }
}
