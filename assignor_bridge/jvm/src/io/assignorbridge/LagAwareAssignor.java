package io.assignorbridge;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives each topic's partitions to the group's members so that counts, and then lags, are as even as
 * possible: the lag-aware proposal (KAFKA-5337), for {@code
 * partition.assignment.strategy=io.assignorbridge.LagAwareAssignor}.
 *
 * <p>Partitions are taken by decreasing lag. Each goes to the subscriber with the fewest partitions of
 * that topic, then the least lag of that topic, then the smallest member id. Members of kafka-python
 * with {@code assignor("lag-aware")} may be in the same group: name, user data (none), and answers are
 * the same. Racks are ignored.
 *
 * <p>The leader looks offsets up with the consumer's own settings. What it does not learn within two
 * seconds is a lag of 0.
 */
public class LagAwareAssignor implements ConsumerPartitionAssignor, Configurable {
  private static final Logger LOG = LoggerFactory.getLogger(LagAwareAssignor.class);
  private static final long MAX_WAIT_MS = 2_000;
  private static final long DEFAULT_REBALANCE_TIMEOUT_MS = 300_000;

  private final Map<String, Object> settings = new HashMap<>();
  private boolean hasFailed;

  @Override
  public void configure(Map<String, ?> configs) {
    settings.putAll(configs);
  }

  @Override
  public String name() {
    return "lag-aware";
  }

  @Override
  public GroupAssignment assign(Cluster cluster, GroupSubscription group) {
    Map<String, List<String>> subscribers = new TreeMap<>(); // by topic
    new TreeMap<>(group.groupSubscription())
        .forEach(
            (member, subscription) ->
                subscription.topics().stream()
                    .distinct()
                    .forEach(t -> subscribers.computeIfAbsent(t, k -> new ArrayList<>()).add(member)));
    List<TopicPartition> partitions = new ArrayList<>();
    for (String topic : subscribers.keySet()) {
      Integer count = cluster.partitionCountForTopic(topic); // null if the topic does not exist
      for (int number = 0; count != null && number < count; number++) {
        partitions.add(new TopicPartition(topic, number));
      }
    }
    Map<TopicPartition, Long> lags = partitions.isEmpty() ? Map.of() : lags(partitions);
    Map<String, List<TopicPartition>> assigned = new HashMap<>();
    group.groupSubscription().keySet().forEach(member -> assigned.put(member, new ArrayList<>()));
    Map<String, List<TopicPartition>> byTopic = new TreeMap<>();
    partitions.forEach(p -> byTopic.computeIfAbsent(p.topic(), t -> new ArrayList<>()).add(p));
    byTopic.forEach((topic, those) -> deal(those, subscribers.get(topic), lags, assigned));
    Map<String, Assignment> result = new HashMap<>();
    assigned.forEach((member, owned) -> result.put(member, new Assignment(sorted(owned))));
    return new GroupAssignment(result);
  }

  /**
   * Deals one topic's partitions in rounds. All members have the same count when a round begins, so
   * within a round each gets one partition, the member with the least lag the one with the largest.
   */
  private static void deal(
      List<TopicPartition> partitions,
      List<String> members,
      Map<TopicPartition, Long> lags,
      Map<String, List<TopicPartition>> assigned) {
    List<TopicPartition> heaviestFirst = new ArrayList<>(partitions); // by number: the sort is stable
    heaviestFirst.sort(Comparator.comparingLong(p -> -lags.getOrDefault(p, 0L)));
    Map<String, Long> totalLag = new HashMap<>();
    List<String> leastLagFirst = new ArrayList<>(members);
    Comparator<String> byLag = Comparator.comparingLong(m -> totalLag.getOrDefault(m, 0L));
    for (int dealt = 0; dealt < heaviestFirst.size(); dealt++) {
      int place = dealt % members.size();
      if (place == 0) {
        leastLagFirst.sort(byLag.thenComparing(Comparator.naturalOrder()));
      }
      TopicPartition partition = heaviestFirst.get(dealt);
      assigned.get(leastLagFirst.get(place)).add(partition);
      totalLag.merge(leastLagFirst.get(place), lags.getOrDefault(partition, 0L), Long::sum);
    }
  }

  /** The lags of the partitions, 0 or more; a partition without an answer is left out. */
  protected Map<TopicPartition, Long> lags(Collection<TopicPartition> partitions) {
    long limitMs = limitMs();
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMs);
    Admin admin = null;
    try {
      admin = Admin.create(adminSettings(limitMs));
      return lookUp(admin, partitions, deadline);
    } catch (ExecutionException | TimeoutException | RuntimeException error) {
      logOnce(error instanceof ExecutionException ? error.getCause() : error, limitMs);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    } finally {
      if (admin != null) {
        admin.close(Duration.ofMillis(1)); // with 0 it waits for its thread, which may look names up
      }
    }
    return Map.of();
  }

  private Map<TopicPartition, Long> lookUp(
      Admin admin, Collection<TopicPartition> partitions, long deadline)
      throws ExecutionException, InterruptedException, TimeoutException {
    String group = String.valueOf(settings.get(ConsumerConfig.GROUP_ID_CONFIG));
    KafkaFuture<Map<TopicPartition, OffsetAndMetadata>> commits =
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata();
    ListOffsetsResult latest = admin.listOffsets(specs(partitions, OffsetSpec.latest()));
    Map<TopicPartition, OffsetAndMetadata> committed = get(commits, deadline);
    List<TopicPartition> fromBeginning = new ArrayList<>();
    if (!startsAtEnd()) {
      partitions.stream().filter(p -> committed.get(p) == null).forEach(fromBeginning::add);
    }
    ListOffsetsResult beginning = admin.listOffsets(specs(fromBeginning, OffsetSpec.earliest()));
    Map<TopicPartition, Long> lags = new HashMap<>();
    for (TopicPartition partition : partitions) {
      OffsetAndMetadata commit = committed.get(partition);
      if (commit == null && startsAtEnd()) {
        continue;
      }
      try {
        long end = get(latest.partitionResult(partition), deadline).offset();
        long start =
            commit != null
                ? commit.offset()
                : get(beginning.partitionResult(partition), deadline).offset();
        lags.put(partition, Math.max(end - start, 0));
      } catch (ExecutionException error) { // of this partition alone: it was deleted, or has no leader
        logOnce(error.getCause(), limitMs());
      }
    }
    return lags;
  }

  /** A consumer without a committed offset starts at the end: nothing lags. */
  private boolean startsAtEnd() {
    Object reset = settings.get(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG);
    return reset == null || reset.toString().toLowerCase(Locale.ROOT).equals("latest");
  }

  /** Two seconds, or half of a shorter rebalance timeout. */
  private long limitMs() {
    Object timeout = settings.get(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG);
    long rebalanceMs =
        timeout == null ? DEFAULT_REBALANCE_TIMEOUT_MS : Long.parseLong(timeout.toString().trim());
    return Math.min(MAX_WAIT_MS, rebalanceMs / 2);
  }

  /** The consumer's settings that an admin client takes, too, with our time limit. */
  private Map<String, Object> adminSettings(long limitMs) {
    Map<String, Object> admin = new HashMap<>(settings);
    admin.keySet().retainAll(AdminClientConfig.configNames());
    admin.remove(AdminClientConfig.METRIC_REPORTER_CLASSES_CONFIG);
    Object client = settings.getOrDefault(ConsumerConfig.CLIENT_ID_CONFIG, "");
    admin.put(AdminClientConfig.CLIENT_ID_CONFIG, client + "-lag-aware");
    admin.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, (int) limitMs);
    admin.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, (int) limitMs);
    return admin;
  }

  private void logOnce(Throwable error, long limitMs) {
    if (!hasFailed) {
      hasFailed = true;
      LOG.warn(
          "the lags of group {} could not be looked up within {} ms ({}): unknown ones count as 0",
          settings.get(ConsumerConfig.GROUP_ID_CONFIG), limitMs, String.valueOf(error));
    }
  }

  private static <T> T get(KafkaFuture<T> future, long deadline)
      throws ExecutionException, InterruptedException, TimeoutException {
    return future.get(Math.max(deadline - System.nanoTime(), 0), TimeUnit.NANOSECONDS);
  }

  private static Map<TopicPartition, OffsetSpec> specs(
      Collection<TopicPartition> partitions, OffsetSpec spec) {
    Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
    partitions.forEach(partition -> specs.put(partition, spec));
    return specs;
  }

  private static List<TopicPartition> sorted(List<TopicPartition> partitions) {
    partitions.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
    return partitions;
  }
}
