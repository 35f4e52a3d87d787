package io.assignorbridge.admission;

import io.assignorbridge.kafka.KafkaAdmin;
import io.assignorbridge.model.LatestOnlyExecutor;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The retention time of topics (`retention.ms`), requested at the start and every few minutes on a
 * separate thread, so no batch waits for an answer. Topics that keep records forever, or only
 * compact them, are omitted. Topics whose retention is unknown are omitted after one warning.
 */
public final class Retentions implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Retentions.class);
  private static final long REFRESH_NANOS = 300_000_000_000L;
  private static final int REQUEST_LIMIT_MS = 30_000;

  private final KafkaAdmin admin;
  private final LatestOnlyExecutor<Set<String>> newest =
      new LatestOnlyExecutor<>("assignor-retention", this::requestFromKafka);
  private volatile Map<String, Long> retentionsMs = Map.of();
  private boolean warned; // used on the request thread
  // Used on the stream's thread:
  private Set<String> requested = Set.of(); // topics of the last request
  private Set<String> seen = new HashSet<>(); // topics since the last regular request
  private long requestedNanos; // time of the last regular request

  public Retentions(Map<String, String> kafka) {
    admin = new KafkaAdmin(kafka);
  }

  /** Returns the retention in milliseconds of each topic whose retention is known by now. */
  public Map<String, Long> retentionsOf(Collection<String> topics) {
    long nowNanos = System.nanoTime();
    seen.addAll(topics);
    if (nowNanos - requestedNanos >= REFRESH_NANOS) {
      request(seen, nowNanos);
      seen = new HashSet<>();
    } else if (!requested.containsAll(topics)) {
      Set<String> extended = new HashSet<>(requested);
      extended.addAll(topics);
      request(extended, requestedNanos);
    }
    return retentionsMs;
  }

  private void request(Set<String> topics, long nanos) {
    requested = topics;
    requestedNanos = nanos;
    newest.submit(topics);
  }

  @Override
  public void close() {
    admin.close(); // aborts the current request
    newest.finish(1);
  }

  private void requestFromKafka(Set<String> topics) {
    Map<String, Long> answers = new HashMap<>(retentionsMs);
    answers.keySet().retainAll(topics);
    try {
      List<ConfigResource> resources =
          topics.stream().map(name -> new ConfigResource(ConfigResource.Type.TOPIC, name)).toList();
      var limit = new DescribeConfigsOptions().timeoutMs(REQUEST_LIMIT_MS);
      for (var topic : admin.open().describeConfigs(resources, limit).values().entrySet()) {
        store(topic.getKey().name(), topic.getValue(), answers);
      }
    } catch (InterruptedException e) {
      return; // the query has ended
    } catch (RuntimeException | LinkageError e) {
      warn("any topic", e);
    }
    retentionsMs = Map.copyOf(answers);
  }

  private void store(String topic, KafkaFuture<Config> answer, Map<String, Long> answers)
      throws InterruptedException {
    try {
      Config config = answer.get();
      long millis = Long.parseLong(config.get(TopicConfig.RETENTION_MS_CONFIG).value());
      String policy = config.get(TopicConfig.CLEANUP_POLICY_CONFIG).value();
      if (millis < 0 || !policy.contains(TopicConfig.CLEANUP_POLICY_DELETE)) {
        answers.remove(topic);
      } else {
        answers.put(topic, millis);
      }
    } catch (ExecutionException e) {
      warn("topic '" + topic + "'", e.getCause());
    }
  }

  private void warn(String topics, Throwable error) {
    if (!warned && !admin.isEnded()) {
      String permission = " (the query's user needs DescribeConfigs on this topic)";
      LOG.warn(
          "assignor-bridge could not read the retention of {}, so assignor.fairness=deadline assumes"
              + " that its records do not expire soon (logged once): {}{}",
          topics,
          admin.describe(error),
          error instanceof TopicAuthorizationException ? permission : "");
      warned = true;
    }
  }
}
