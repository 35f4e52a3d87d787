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
 * Balances each topic over the members of a consumer group, first by number of partitions, then by
 * lag (KAFKA-5337). Set {@code partition.assignment.strategy=io.assignorbridge.LagAwareAssignor}.
 *
 * <p>Partitions are assigned by decreasing lag. Each goes to the subscriber with the fewest
 * partitions of that topic, then the smallest lag in that topic, then the smallest member id. A
 * group can also have kafka-python members with {@code assignor("lag-aware")}: both use the same
 * name, send no user data, and compute the same assignment. Racks are ignored.
 *
 * <p>The group leader fetches lags with the consumer's own settings. A lag that it cannot fetch
 * within two seconds, or half the rebalance timeout if that is shorter, counts as 0.
 */
public class LagAwareAssignor implements ConsumerPartitionAssignor, Configurable {
  private static final Logger LOG = LoggerFactory.getLogger(LagAwareAssignor.class);
  private static final long MAX_FETCH_MS = 2_000;
  private static final long DEFAULT_REBALANCE_TIMEOUT_MS = 300_000;

  private final Map<String, Object> settings = new HashMap<>();
  private boolean hasWarned;

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
    Map<String, List<String>> subscribersByTopic = new TreeMap<>();
    new TreeMap<>(group.groupSubscription())
        .forEach(
            (member, subscription) ->
                subscription.topics().stream()
                    .distinct()
                    .forEach(
                        t -> subscribersByTopic.computeIfAbsent(t, k -> new ArrayList<>()).add(member)));
    List<TopicPartition> partitions = new ArrayList<>();
    for (String topic : subscribersByTopic.keySet()) {
      Integer partitionCount = cluster.partitionCountForTopic(topic); // null for a missing topic
      for (int number = 0; partitionCount != null && number < partitionCount; number++) {
        partitions.add(new TopicPartition(topic, number));
      }
    }
    Map<TopicPartition, Long> lagByPartition =
        partitions.isEmpty() ? Map.of() : fetchLags(partitions);
    Map<String, List<TopicPartition>> partitionsByMember = new HashMap<>();
    group.groupSubscription().keySet().forEach(m -> partitionsByMember.put(m, new ArrayList<>()));
    Map<String, List<TopicPartition>> partitionsByTopic = new TreeMap<>();
    partitions.forEach(
        p -> partitionsByTopic.computeIfAbsent(p.topic(), t -> new ArrayList<>()).add(p));
    partitionsByTopic.forEach(
        (topic, topicPartitions) -> {
          List<String> subscribers = subscribersByTopic.get(topic);
          assignInRounds(topicPartitions, subscribers, lagByPartition, partitionsByMember);
        });
    Map<String, Assignment> assignmentByMember = new HashMap<>();
    partitionsByMember.forEach(
        (m, memberPartitions) -> assignmentByMember.put(m, new Assignment(sort(memberPartitions))));
    return new GroupAssignment(assignmentByMember);
  }

  /**
   * Assigns one topic's partitions in rounds, by decreasing lag. Each round gives every member at
   * most one partition, starting with the smallest total lag, then the smallest member id.
   */
  private static void assignInRounds(
      List<TopicPartition> partitions,
      List<String> members,
      Map<TopicPartition, Long> lagByPartition,
      Map<String, List<TopicPartition>> partitionsByMember) {
    List<TopicPartition> sortedPartitions = new ArrayList<>(partitions); // ties keep their order
    sortedPartitions.sort(Comparator.comparingLong(p -> -lagByPartition.getOrDefault(p, 0L)));
    Map<String, Long> totalLagByMember = new HashMap<>();
    List<String> sortedMembers = new ArrayList<>(members);
    Comparator<String> byTotalLag = Comparator.comparingLong(m -> totalLagByMember.getOrDefault(m, 0L));
    for (int i = 0; i < sortedPartitions.size(); i++) {
      int memberIndex = i % members.size();
      if (memberIndex == 0) {
        sortedMembers.sort(byTotalLag.thenComparing(Comparator.naturalOrder()));
      }
      TopicPartition partition = sortedPartitions.get(i);
      String member = sortedMembers.get(memberIndex);
      partitionsByMember.get(member).add(partition);
      totalLagByMember.merge(member, lagByPartition.getOrDefault(partition, 0L), Long::sum);
    }
  }

  /** Returns lags, at least 0; omits unknown lags, and partitions that start at the log's end. */
  protected Map<TopicPartition, Long> fetchLags(Collection<TopicPartition> partitions) {
    long timeoutMs = timeoutMs();
    long deadlineNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    Admin admin = null;
    try {
      admin = Admin.create(toAdminSettings(timeoutMs));
      return computeLags(admin, partitions, deadlineNanos);
    } catch (ExecutionException | TimeoutException | RuntimeException error) {
      warnOnce(error);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    } finally {
      if (admin != null) {
        admin.close(Duration.ofMillis(1)); // 0 waits for its thread, even in a DNS lookup
      }
    }
    return Map.of();
  }

  private Map<TopicPartition, Long> computeLags(
      Admin admin, Collection<TopicPartition> partitions, long deadlineNanos)
      throws ExecutionException, InterruptedException, TimeoutException {
    String groupId = String.valueOf(settings.get(ConsumerConfig.GROUP_ID_CONFIG));
    KafkaFuture<Map<TopicPartition, OffsetAndMetadata>> commitResult =
        admin.listConsumerGroupOffsets(groupId).partitionsToOffsetAndMetadata();
    ListOffsetsResult endResults = admin.listOffsets(toSpecs(partitions, OffsetSpec.latest()));
    // Requested before the commits arrive, because the members wait for each round trip.
    ListOffsetsResult startResults =
        admin.listOffsets(toSpecs(startsAtEnd() ? List.of() : partitions, OffsetSpec.earliest()));
    Map<TopicPartition, OffsetAndMetadata> commitByPartition = await(commitResult, deadlineNanos);
    Map<TopicPartition, Long> lagByPartition = new HashMap<>();
    for (TopicPartition partition : partitions) {
      OffsetAndMetadata commit = commitByPartition.get(partition);
      if (commit == null && startsAtEnd()) {
        continue;
      }
      try {
        long end = await(endResults.partitionResult(partition), deadlineNanos).offset();
        long firstUnreadOffset =
            commit != null
                ? commit.offset()
                : await(startResults.partitionResult(partition), deadlineNanos).offset();
        lagByPartition.put(partition, Math.max(end - firstUnreadOffset, 0));
      } catch (ExecutionException | TimeoutException error) { // such as a deleted partition
        warnOnce(error); // after the deadline, `await` still returns the results that have arrived
      }
    }
    return lagByPartition;
  }

  /** Returns whether partitions without a committed offset start at the log's end, with lag 0. */
  private boolean startsAtEnd() {
    Object offsetReset = settings.get(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG);
    return offsetReset == null || offsetReset.toString().toLowerCase(Locale.ROOT).equals("latest");
  }

  /** Returns the time limit for lags: two seconds, or half the rebalance timeout if shorter. */
  private long timeoutMs() {
    Object setting = settings.get(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG);
    long rebalanceTimeoutMs =
        setting == null ? DEFAULT_REBALANCE_TIMEOUT_MS : Long.parseLong(setting.toString().trim());
    return Math.min(MAX_FETCH_MS, rebalanceTimeoutMs / 2);
  }

  /** Returns the consumer settings that an admin client accepts, with the time limit for lags. */
  private Map<String, Object> toAdminSettings(long timeoutMs) {
    Map<String, Object> adminSettings = new HashMap<>(settings);
    // The client exists only for one assignment, which is too short to report metrics.
    adminSettings.put(AdminClientConfig.METRIC_REPORTER_CLASSES_CONFIG, List.of());
    adminSettings.put("auto.include.jmx.reporter", false); // until Kafka 3.9
    adminSettings.put("enable.metrics.push", false); // since Kafka 3.7
    adminSettings.keySet().retainAll(AdminClientConfig.configNames());
    Object clientId = settings.getOrDefault(ConsumerConfig.CLIENT_ID_CONFIG, "");
    adminSettings.put(AdminClientConfig.CLIENT_ID_CONFIG, clientId + "-lag-aware");
    adminSettings.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, (int) timeoutMs);
    adminSettings.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, (int) timeoutMs);
    return adminSettings;
  }

  private void warnOnce(Exception error) {
    if (!hasWarned) {
      hasWarned = true;
      LOG.warn(
          "some lags of group {} were not fetched and count as 0 (limit: {} ms; logged once): {}",
          settings.get(ConsumerConfig.GROUP_ID_CONFIG),
          timeoutMs(),
          String.valueOf(error instanceof ExecutionException ? error.getCause() : error));
    }
  }

  private static <T> T await(KafkaFuture<T> future, long deadlineNanos)
      throws ExecutionException, InterruptedException, TimeoutException {
    return future.get(Math.max(deadlineNanos - System.nanoTime(), 0), TimeUnit.NANOSECONDS);
  }

  private static Map<TopicPartition, OffsetSpec> toSpecs(
      Collection<TopicPartition> partitions, OffsetSpec spec) {
    Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
    partitions.forEach(partition -> specs.put(partition, spec));
    return specs;
  }

  private static List<TopicPartition> sort(List<TopicPartition> partitions) {
    partitions.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
    return partitions;
  }
}
