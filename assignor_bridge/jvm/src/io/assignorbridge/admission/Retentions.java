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
 * Requests each topic's `retention.ms` at the start, for new topics, and every five minutes. A
 * separate thread does it, so no batch waits. Topics without deletion by time are omitted, and so
 * are topics whose retention was never read; the first failure is logged.
 */
public final class Retentions implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Retentions.class);
  private static final long REFRESH_NANOS = 300_000_000_000L;
  private static final int REQUEST_TIMEOUT_MS = 30_000;

  private final KafkaAdmin admin;
  private final LatestOnlyExecutor<Set<String>> requester =
      new LatestOnlyExecutor<>("assignor-retention", this::requestFromKafka);
  private volatile Map<String, Long> retentionMsByTopic = Map.of();
  private boolean hasWarned; // used on the request thread
  // Used on the stream's thread:
  private Set<String> requestedTopics = Set.of(); // topics of the last request
  private Set<String> seenTopics = new HashSet<>(); // topics since the last refresh
  private long refreshedNanos; // time of the last refresh of all topics

  public Retentions(Map<String, String> kafkaSettings) {
    admin = new KafkaAdmin(kafkaSettings);
  }

  /** Returns all known retentions in ms, by topic; requests those that are missing or old. */
  public Map<String, Long> findRetentions(Collection<String> topics) {
    long nowNanos = System.nanoTime();
    seenTopics.addAll(topics);
    if (nowNanos - refreshedNanos >= REFRESH_NANOS) {
      request(seenTopics, nowNanos);
      seenTopics = new HashSet<>();
    } else if (!requestedTopics.containsAll(topics)) {
      Set<String> allTopics = new HashSet<>(requestedTopics);
      allTopics.addAll(topics);
      request(allTopics, refreshedNanos);
    }
    return retentionMsByTopic;
  }

  private void request(Set<String> topics, long newRefreshedNanos) {
    requestedTopics = topics;
    refreshedNanos = newRefreshedNanos;
    requester.submit(topics);
  }

  @Override
  public void close() {
    admin.close(); // aborts the current request
    requester.finish(1);
  }

  private void requestFromKafka(Set<String> topics) {
    Map<String, Long> newRetentionMsByTopic = new HashMap<>(retentionMsByTopic);
    newRetentionMsByTopic.keySet().retainAll(topics);
    try {
      List<ConfigResource> resources =
          topics.stream().map(name -> new ConfigResource(ConfigResource.Type.TOPIC, name)).toList();
      var options = new DescribeConfigsOptions().timeoutMs(REQUEST_TIMEOUT_MS);
      for (var topic : admin.open().describeConfigs(resources, options).values().entrySet()) {
        store(topic.getKey().name(), topic.getValue(), newRetentionMsByTopic);
      }
    } catch (InterruptedException e) {
      return; // the query has ended
    } catch (RuntimeException | LinkageError e) {
      warnOnce("any topic", e);
    }
    retentionMsByTopic = Map.copyOf(newRetentionMsByTopic);
  }

  private void store(
      String topic, KafkaFuture<Config> answer, Map<String, Long> newRetentionMsByTopic)
      throws InterruptedException {
    try {
      Config config = answer.get();
      long millis = Long.parseLong(config.get(TopicConfig.RETENTION_MS_CONFIG).value());
      String policy = config.get(TopicConfig.CLEANUP_POLICY_CONFIG).value();
      if (millis < 0 || !policy.contains(TopicConfig.CLEANUP_POLICY_DELETE)) {
        newRetentionMsByTopic.remove(topic);
      } else {
        newRetentionMsByTopic.put(topic, millis);
      }
    } catch (ExecutionException e) {
      warnOnce("topic '" + topic + "'", e.getCause());
    }
  }

  private void warnOnce(String topics, Throwable error) {
    if (!hasWarned && !admin.isEnded()) {
      String advice = " (the query's user needs DescribeConfigs on this topic)";
      LOG.warn(
          "assignor-bridge could not read the retention of {}; assignor.fairness=deadline uses the"
              + " last known one, or assumes that records do not expire soon (logged once): {}{}",
          topics,
          admin.describe(error),
          error instanceof TopicAuthorizationException ? advice : "");
      hasWarned = true;
    }
  }
}
