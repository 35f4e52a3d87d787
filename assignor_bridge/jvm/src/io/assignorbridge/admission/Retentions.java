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
 * For how long topics keep records (`retention.ms`). It is asked for at first and every few minutes, on
 * a thread of its own: no batch waits for the answer. Topics that keep records for ever, or only
 * compact them, are left out, and so are those of which nothing is known, with one warning.
 */
public final class Retentions implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Retentions.class);
  private static final long AGAIN_NANOS = 300_000_000_000L;
  private static final int LIMIT_MS = 30_000;

  private final KafkaAdmin admin;
  private final LatestOnlyExecutor<Set<String>> newest =
      new LatestOnlyExecutor<>("assignor-retention", this::askKafka);
  private volatile Map<String, Long> known = Map.of();
  private boolean warned; // on the thread that asks
  private Set<String> asked = Set.of(); // on the stream's thread, as the next two
  private Set<String> seen = new HashSet<>(); // since it was asked for all
  private long askedNanos;

  public Retentions(Map<String, String> kafka) {
    admin = new KafkaAdmin(kafka);
  }

  /** Milliseconds by topic, as far as they are known by now. */
  public Map<String, Long> of(Collection<String> topics) {
    long now = System.nanoTime();
    seen.addAll(topics);
    if (now - askedNanos >= AGAIN_NANOS) { // of all that were there meanwhile
      ask(seen, now);
      seen = new HashSet<>();
    } else if (!asked.containsAll(topics)) {
      Set<String> more = new HashSet<>(asked);
      more.addAll(topics);
      ask(more, askedNanos);
    }
    return known;
  }

  private void ask(Set<String> topics, long nanos) {
    asked = topics;
    askedNanos = nanos;
    newest.submit(topics);
  }

  @Override
  public void close() {
    admin.close(); // ends the request under way
    newest.finish(1);
  }

  private void askKafka(Set<String> topics) {
    Map<String, Long> answers = new HashMap<>(known);
    answers.keySet().retainAll(topics);
    try {
      List<ConfigResource> resources =
          topics.stream().map(name -> new ConfigResource(ConfigResource.Type.TOPIC, name)).toList();
      var limit = new DescribeConfigsOptions().timeoutMs(LIMIT_MS);
      for (var topic : admin.open().describeConfigs(resources, limit).values().entrySet()) {
        note(topic.getKey().name(), topic.getValue(), answers);
      }
    } catch (InterruptedException e) {
      return; // the query has ended
    } catch (RuntimeException | LinkageError e) {
      warn("any topic", e);
    }
    known = Map.copyOf(answers);
  }

  private void note(String topic, KafkaFuture<Config> answer, Map<String, Long> answers)
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

  private void warn(String of, Throwable error) {
    if (!warned && !admin.isEnded()) {
      String right = " (the user of the query needs DescribeConfigs on this topic)";
      LOG.warn(
          "assignor-bridge does not know the retention of {}, so assignor.fairness=deadline counts"
              + " its records as not about to be deleted (warned once): {}{}",
          of,
          admin.describe(error),
          error instanceof TopicAuthorizationException ? right : "");
      warned = true;
    }
  }
}
