package io.assignorbridge.cluster;

import io.assignorbridge.kafka.KafkaAdmin;
import io.assignorbridge.model.LatestOnlyExecutor;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.worker.Columns;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The racks from which each partition can be read: its leader's rack or, if readers send their rack
 * to a rack-aware replica selector (KIP-392), the racks of all in-sync replicas. A separate thread
 * requests them at the start, every two minutes, and for new partitions. Only the first plan waits
 * for them, briefly. Without an answer, the previous racks are used, and one warning is logged.
 */
final class ReplicaRacks implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(ReplicaRacks.class);
  private static final long REFRESH_NANOS = 120_000_000_000L;
  private static final long MIN_REFRESH_NANOS = 10_000_000_000L;
  private static final int REQUEST_TIMEOUT_MS = 30_000;
  private static final int MAX_FIRST_WAIT_MS = 5_000;
  private static final String SELECTOR_SETTING = "replica.selector.class";
  private static final String RACK_AWARE_SELECTOR = "RackAwareReplicaSelector";
  private static final int UNKNOWN = -1; // index of a partition without a known rack

  /**
   * The result of a request. `rackSets` are distinct; `indexesByTopic` has each partition's index
   * in `rackSets` (-1 if unknown); and `goneTopics` are requested topics that do not exist.
   */
  private record Snapshot(
      List<List<String>> rackSets,
      Map<String, int[]> indexesByTopic,
      Map<Integer, String> rackByBroker,
      Set<String> goneTopics) {
    int indexOf(String topic, int partition) {
      int[] topicIndexes = indexesByTopic.get(topic);
      return topicIndexes == null || partition >= topicIndexes.length ? UNKNOWN : topicIndexes[partition];
    }

    boolean contains(String topic, int partition) {
      int[] topicIndexes = indexesByTopic.get(topic);
      return topicIndexes != null && partition < topicIndexes.length;
    }
  }

  private final KafkaAdmin admin;
  private final boolean readsFollowers; // whether readers send Kafka a rack
  private final String clientRack; // `client.rack` of all readers; null if each sends its own
  private final LatestOnlyExecutor<Set<String>> requester =
      new LatestOnlyExecutor<>("assignor-racks", this::requestRacks);
  private final CountDownLatch firstRequest = new CountDownLatch(1);
  private volatile Snapshot snapshot = new Snapshot(List.of(), Map.of(), Map.of(), Set.of());
  // Used on the request thread:
  private final Map<String, TopicDescription> descriptionByTopic = new HashMap<>();
  private final Set<Integer> rackAwareBrokers = new HashSet<>(); // broker ids
  private boolean hasWarned;
  private boolean hasWarnedOfSelectors;
  // Used on the stream's thread:
  private Set<String> requestedTopics = Set.of();
  private long lastRequestNanos;
  private boolean hasWaited;

  /** With `readsFollowers`, readers send Kafka their rack, so that followers can serve them. */
  ReplicaRacks(Map<String, String> kafkaSettings, boolean readsFollowers) {
    admin = new KafkaAdmin(kafkaSettings);
    String rack = kafkaSettings.get(CommonClientConfigs.CLIENT_RACK_CONFIG);
    clientRack = ExecutorRacks.stripToNull(rack);
    this.readsFollowers = readsFollowers || clientRack != null;
  }

  /** Returns whether the first request has ended, successfully or not. */
  boolean hasFinishedFirstRequest() {
    return firstRequest.getCount() == 0;
  }

  /** Returns the racks of brokers that have replicas of the stream's topics, by broker id. */
  Map<Integer, String> rackByBroker() {
    return snapshot.rackByBroker();
  }

  /** Returns the racks of each range, or null if none is known; requests missing or old racks. */
  Columns.Racks findRacks(List<OffsetRange> ranges) throws InterruptedException {
    Snapshot previousSnapshot = snapshot;
    Set<String> topicNames = new HashSet<>(requestedTopics);
    topicNames.removeAll(previousSnapshot.goneTopics());
    boolean hasNewPartition = false;
    for (OffsetRange range : ranges) {
      if (!previousSnapshot.contains(range.topic(), range.partition())) {
        hasNewPartition = true;
        topicNames.add(range.topic());
      }
    }
    long elapsedNanos = System.nanoTime() - lastRequestNanos;
    boolean hasNewTopic = !requestedTopics.containsAll(topicNames);
    if (hasNewTopic || elapsedNanos >= REFRESH_NANOS || hasNewPartition && elapsedNanos >= MIN_REFRESH_NANOS) {
      requestedTopics = topicNames;
      lastRequestNanos = System.nanoTime();
      requester.submit(topicNames);
    }
    if (!hasWaited) {
      firstRequest.await(MAX_FIRST_WAIT_MS, TimeUnit.MILLISECONDS);
      hasWaited = true;
    }
    Snapshot latestSnapshot = snapshot;
    return latestSnapshot.rackSets().isEmpty()
        ? null
        : Columns.Racks.of(
            latestSnapshot.rackSets(),
            ranges,
            r -> latestSnapshot.indexOf(r.topic(), r.partition()));
  }

  @Override
  public void close() {
    admin.close(); // aborts the current request
    requester.finish(1);
  }

  private void requestRacks(Set<String> topicNames) {
    try {
      Admin client = admin.open();
      Set<String> goneTopics = describeTopics(client, topicNames);
      if (readsFollowers) {
        requestSelectors(client);
      }
      snapshot = createSnapshot(goneTopics);
      LOG.debug("requested the racks (topics: {}): {}", topicNames.size(), snapshot.rackSets());
    } catch (InterruptedException e) {
      return; // the query has ended
    } catch (RuntimeException | LinkageError e) {
      warnOnce("any topic", e);
    } finally {
      firstRequest.countDown();
    }
  }

  /** Stores the descriptions of topics that exist; returns the topics that do not. */
  private Set<String> describeTopics(Admin client, Set<String> topicNames) throws InterruptedException {
    Set<String> goneTopics = new HashSet<>();
    var options = new DescribeTopicsOptions().timeoutMs(REQUEST_TIMEOUT_MS);
    for (var topic : client.describeTopics(topicNames, options).topicNameValues().entrySet()) {
      try {
        descriptionByTopic.put(topic.getKey(), topic.getValue().get());
      } catch (ExecutionException e) {
        if (e.getCause() instanceof UnknownTopicOrPartitionException) {
          goneTopics.add(topic.getKey());
        } else {
          warnOnce("topic '" + topic.getKey() + "'", e.getCause());
        }
      }
    }
    descriptionByTopic.keySet().removeAll(goneTopics);
    return goneTopics;
  }

  /** Stores which leaders let consumers read from followers; a failure keeps the last result. */
  private void requestSelectors(Admin client) throws InterruptedException {
    List<ConfigResource> brokers =
        descriptionByTopic.values().stream()
            .flatMap(topic -> topic.partitions().stream())
            .map(TopicPartitionInfo::leader)
            .filter(leader -> leader != null && !leader.isEmpty())
            .map(Node::idString)
            .distinct()
            .map(id -> new ConfigResource(ConfigResource.Type.BROKER, id))
            .toList();
    var options = new DescribeConfigsOptions().timeoutMs(REQUEST_TIMEOUT_MS);
    for (var broker : client.describeConfigs(brokers, options).values().entrySet()) {
      int id = Integer.parseInt(broker.getKey().name());
      try {
        ConfigEntry selector = broker.getValue().get().get(SELECTOR_SETTING);
        rackAwareBrokers.remove(id);
        if (selector != null
            && selector.value() != null
            && selector.value().strip().endsWith(RACK_AWARE_SELECTOR)) {
          rackAwareBrokers.add(id);
        }
      } catch (ExecutionException e) {
        warnOfSelectorsOnce(e.getCause());
      }
    }
  }

  private Snapshot createSnapshot(Set<String> goneTopics) {
    Map<List<String>, Integer> indexByRackSet = new LinkedHashMap<>();
    Map<String, int[]> indexesByTopic = new HashMap<>();
    // Keep the racks of stopped brokers.
    Map<Integer, String> rackByBroker = new HashMap<>(snapshot.rackByBroker());
    descriptionByTopic.forEach(
        (name, topic) -> {
          int[] topicIndexes =
              new int[topic.partitions().stream().mapToInt(p -> p.partition() + 1).max().orElse(0)];
          Arrays.fill(topicIndexes, UNKNOWN);
          for (TopicPartitionInfo partition : topic.partitions()) {
            partition.replicas().stream()
                .filter(replica -> ExecutorRacks.stripToNull(replica.rack()) != null)
                .forEach(r -> rackByBroker.put(r.id(), ExecutorRacks.stripToNull(r.rack())));
            List<String> racks = listReadableRacks(partition);
            if (!racks.isEmpty()) {
              topicIndexes[partition.partition()] =
                  indexByRackSet.computeIfAbsent(racks, r -> indexByRackSet.size());
            }
          }
          indexesByTopic.put(name, topicIndexes);
        });
    List<List<String>> rackSets = new ArrayList<>(indexByRackSet.keySet());
    return new Snapshot(rackSets, indexesByTopic, rackByBroker, goneTopics);
  }

  /** Returns the sorted racks from which the partition can be read; empty if unknown. */
  private List<String> listReadableRacks(TopicPartitionInfo partition) {
    Node leader = partition.leader();
    if (leader == null || leader.isEmpty()) { // during an election
      return List.of();
    }
    Set<String> racks = new TreeSet<>();
    if (rackAwareBrokers.contains(leader.id())) {
      partition.isr().forEach(replica -> addIfKnown(replica.rack(), racks));
      if (clientRack != null) { // replicas in this rack serve all readers, wherever they run
        racks.retainAll(Set.of(clientRack));
      }
    }
    if (racks.isEmpty()) {
      addIfKnown(leader.rack(), racks);
    }
    return List.copyOf(racks);
  }

  private static void addIfKnown(String rack, Set<String> racks) {
    String name = ExecutorRacks.stripToNull(rack);
    if (name != null) {
      racks.add(name);
    }
  }

  private void warnOnce(String topics, Throwable error) {
    if (!hasWarned && !admin.isEnded()) {
      LOG.warn(
          "assignor-bridge could not request the replica racks of {}; it uses the last known ones,"
              + " or treats the replicas as near to all executors (logged once): {}",
          topics, admin.describe(error));
      hasWarned = true;
    }
  }

  private void warnOfSelectorsOnce(Throwable error) {
    if (!hasWarnedOfSelectors && !admin.isEnded()) {
      String advice = " (the query's user needs DescribeConfigs on the Cluster)";
      LOG.warn(
          "assignor-bridge could not check whether consumers can read from followers; it plans by"
              + " leader racks if a broker was never checked (logged once): {}{}",
          admin.describe(error),
          error instanceof AuthorizationException ? advice : "");
      hasWarnedOfSelectors = true;
    }
  }
}
