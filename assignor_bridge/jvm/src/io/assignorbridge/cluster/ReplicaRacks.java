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
 * The racks from which each partition can be read: its leader's, or with a rack-aware replica selector
 * (KIP-392) those of all replicas that are in sync. Kafka is asked at first, every few minutes and when
 * there is a new partition, on a thread of its own. Only the first plan waits for the answer, and
 * not for long. Where Kafka does not answer, all stays as it was, with one warning.
 */
final class ReplicaRacks implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(ReplicaRacks.class);
  private static final long AGAIN_NANOS = 120_000_000_000L;
  private static final long SOONEST_NANOS = 10_000_000_000L;
  private static final int LIMIT_MS = 30_000;
  private static final int FIRST_WAIT_MS = 5_000;
  private static final String SELECTOR = "replica.selector.class";
  private static final String RACK_AWARE = "RackAwareReplicaSelector";
  private static final int UNKNOWN = -1;

  /**
   * Sets of racks, by topic the place there of each partition's, racks by id of broker, and topics
   * that Kafka was asked for but does not have.
   */
  private record Known(
      List<List<String>> sets,
      Map<String, int[]> places,
      Map<Integer, String> brokers,
      Set<String> gone) {
    int of(String topic, int partition) {
      int[] ofTopic = places.get(topic);
      return ofTopic == null || partition >= ofTopic.length ? UNKNOWN : ofTopic[partition];
    }

    boolean hasHeardOf(String topic, int partition) {
      int[] ofTopic = places.get(topic);
      return ofTopic != null && partition < ofTopic.length;
    }
  }

  private final KafkaAdmin admin;
  private final boolean followers; // whether readers say where they are
  private final String clientRack; // where all readers say they are; null: each its own
  private final LatestOnlyExecutor<Set<String>> newest =
      new LatestOnlyExecutor<>("assignor-racks", this::ask);
  private final CountDownLatch first = new CountDownLatch(1);
  private volatile Known known = new Known(List.of(), Map.of(), Map.of(), Set.of());
  private final Map<String, TopicDescription> topics = new HashMap<>(); // on the thread that asks
  private final Set<Integer> rackAware = new HashSet<>(); // ids of brokers, on the same
  private boolean warned; // on the same
  private boolean warnedOfSelectors; // on the same
  private Set<String> asked = Set.of(); // on the stream's thread, as the next
  private long askedNanos;
  private boolean hasWaited;

  /** `followers`: whether a reader tells Kafka in which rack it is. */
  ReplicaRacks(Map<String, String> kafka, boolean followers) {
    admin = new KafkaAdmin(kafka);
    clientRack = ExecutorRacks.nameOrNull(kafka.get(CommonClientConfigs.CLIENT_RACK_CONFIG));
    this.followers = followers || clientRack != null;
  }

  /** Whether Kafka was asked, whatever it said. */
  boolean wasAsked() {
    return first.getCount() == 0;
  }

  /** Racks by id of broker, of those that have replicas of these topics. */
  Map<Integer, String> ofBrokers() {
    return known.brokers();
  }

  /** A cell a range, as far as racks are known by now; null: none is. */
  Columns.Racks of(List<OffsetRange> ranges) throws InterruptedException {
    Known now = known;
    Set<String> names = new HashSet<>(asked);
    names.removeAll(now.gone());
    boolean isNew = false;
    for (OffsetRange range : ranges) {
      if (!now.hasHeardOf(range.topic(), range.partition())) {
        isNew = true;
        names.add(range.topic());
      }
    }
    long nanos = System.nanoTime() - askedNanos;
    boolean hasNewTopic = !asked.containsAll(names);
    if (hasNewTopic || nanos >= AGAIN_NANOS || isNew && nanos >= SOONEST_NANOS) {
      asked = names;
      askedNanos = System.nanoTime();
      newest.submit(names);
    }
    if (!hasWaited) {
      first.await(FIRST_WAIT_MS, TimeUnit.MILLISECONDS);
      hasWaited = true;
    }
    Known latest = known;
    return latest.sets().isEmpty()
        ? null
        : Columns.Racks.of(latest.sets(), ranges, r -> latest.of(r.topic(), r.partition()));
  }

  @Override
  public void close() {
    admin.close(); // ends the request under way
    newest.finish(1);
  }

  private void ask(Set<String> names) {
    try {
      Admin client = admin.open();
      Set<String> gone = describe(client, names);
      if (followers) {
        askForSelectors(client);
      }
      known = answers(gone);
      LOG.debug("asked for the racks of {} topics: {}", names.size(), known.sets());
    } catch (InterruptedException e) {
      return; // the query has ended
    } catch (RuntimeException | LinkageError e) {
      warn("any topic", e);
    } finally {
      first.countDown();
    }
  }

  /** What cannot be had now stays as it was; returns the topics that Kafka does not have. */
  private Set<String> describe(Admin client, Set<String> names) throws InterruptedException {
    Set<String> gone = new HashSet<>();
    var limit = new DescribeTopicsOptions().timeoutMs(LIMIT_MS);
    for (var topic : client.describeTopics(names, limit).topicNameValues().entrySet()) {
      try {
        topics.put(topic.getKey(), topic.getValue().get());
      } catch (ExecutionException e) {
        if (e.getCause() instanceof UnknownTopicOrPartitionException) {
          gone.add(topic.getKey());
        } else {
          warn("topic '" + topic.getKey() + "'", e.getCause());
        }
      }
    }
    topics.keySet().removeAll(gone);
    return gone;
  }

  /** Which brokers let followers be read from; only leaders of these topics are asked. */
  private void askForSelectors(Admin client) throws InterruptedException {
    List<ConfigResource> brokers =
        topics.values().stream()
            .flatMap(topic -> topic.partitions().stream())
            .map(TopicPartitionInfo::leader)
            .filter(leader -> leader != null && !leader.isEmpty())
            .map(Node::idString)
            .distinct()
            .map(id -> new ConfigResource(ConfigResource.Type.BROKER, id))
            .toList();
    var limit = new DescribeConfigsOptions().timeoutMs(LIMIT_MS);
    for (var broker : client.describeConfigs(brokers, limit).values().entrySet()) {
      int id = Integer.parseInt(broker.getKey().name());
      try {
        ConfigEntry selector = broker.getValue().get().get(SELECTOR);
        rackAware.remove(id);
        if (selector != null
            && selector.value() != null
            && selector.value().strip().endsWith(RACK_AWARE)) {
          rackAware.add(id);
        }
      } catch (ExecutionException e) {
        warnOfSelectors(e.getCause());
      }
    }
  }

  private Known answers(Set<String> gone) {
    Map<List<String>, Integer> sets = new LinkedHashMap<>();
    Map<String, int[]> places = new HashMap<>();
    Map<Integer, String> brokers = new HashMap<>(known.brokers()); // one that is down has no rack
    topics.forEach(
        (name, topic) -> {
          int most = topic.partitions().stream().mapToInt(p -> p.partition() + 1).max().orElse(0);
          int[] ofTopic = new int[most];
          Arrays.fill(ofTopic, UNKNOWN);
          for (TopicPartitionInfo partition : topic.partitions()) {
            partition.replicas().stream()
                .filter(replica -> ExecutorRacks.nameOrNull(replica.rack()) != null)
                .forEach(replica -> brokers.put(replica.id(), ExecutorRacks.nameOrNull(replica.rack())));
            List<String> racks = racks(partition);
            if (!racks.isEmpty()) {
              ofTopic[partition.partition()] = sets.computeIfAbsent(racks, r -> sets.size());
            }
          }
          places.put(name, ofTopic);
        });
    return new Known(new ArrayList<>(sets.keySet()), places, brokers, gone);
  }

  /** Where the partition can be read, sorted; empty: unknown. */
  private List<String> racks(TopicPartitionInfo partition) {
    Node leader = partition.leader();
    if (leader == null || leader.isEmpty()) { // for the moment
      return List.of();
    }
    Set<String> racks = new TreeSet<>();
    if (rackAware.contains(leader.id())) {
      partition.isr().forEach(replica -> add(replica.rack(), racks));
      if (clientRack != null) { // all readers are served from there, wherever they run
        racks.retainAll(Set.of(clientRack));
      }
    }
    if (racks.isEmpty()) {
      add(leader.rack(), racks);
    }
    return List.copyOf(racks);
  }

  private static void add(String rack, Set<String> racks) {
    String named = ExecutorRacks.nameOrNull(rack);
    if (named != null) {
      racks.add(named);
    }
  }

  private void warn(String of, Throwable error) {
    if (!warned && !admin.isEnded()) {
      LOG.warn(
          "assignor-bridge cannot ask where the replicas of {} are; while that is not known, they"
              + " count as near to all executors (warned once): {}",
          of,
          admin.describe(error));
      warned = true;
    }
  }

  private void warnOfSelectors(Throwable error) {
    if (!warnedOfSelectors && !admin.isEnded()) {
      String right = " (the user of the query needs DescribeConfigs on the Cluster)";
      LOG.warn(
          "assignor-bridge does not know whether brokers let followers be read, so zones are planned"
              + " by the racks of leaders (warned once): {}{}",
          admin.describe(error),
          error instanceof AuthorizationException ? right : "");
      warnedOfSelectors = true;
    }
  }
}
