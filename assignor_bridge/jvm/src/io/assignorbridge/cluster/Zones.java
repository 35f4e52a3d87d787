package io.assignorbridge.cluster;

import io.assignorbridge.model.Executor;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.model.ReportAccumulator;
import io.assignorbridge.worker.Columns;
import io.assignorbridge.worker.Messages;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.SparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * In which racks a stream's executors and replicas are. Without a rack of an executor nothing is asked
 * and nothing is sent. Whatever fails here is unknown to the planner, and fails no batch.
 */
public final class Zones implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Zones.class);
  private static final int PLANS_TO_HEAR_OF_ALL = 3; // readers report with the batch before

  private final SparkContext context;
  private final Map<String, String> kafka;
  private final Messages.EffectiveOptions options;
  private final ExecutorRacks racks;
  private final ReportAccumulator<ExecutorRacks.Received> received = new ReportAccumulator<>();
  private final CrossZoneBytes bytes = new CrossZoneBytes();
  private ReplicaRacks replicas; // null before an executor has a rack
  private int plans;
  private boolean told;
  private boolean advised;
  private boolean warned;

  /** Fails for a file of racks that cannot be used. */
  public Zones(SparkContext context, Messages.EffectiveOptions options, Map<String, String> kafka)
      throws PlannerException {
    this.context = context;
    this.options = options;
    this.kafka = kafka;
    racks = new ExecutorRacks(context, options.rack(), options.rackFile());
    context.register(received);
  }

  public List<Executor> executors() {
    return ExecutorList.of(context, racks);
  }

  /** What a reader needs to know where it runs. */
  public ExecutorRacks.ForReaders forReaders(List<Executor> executors) {
    return racks.forReaders(executors, received);
  }

  /** Where the ranges of a batch to be planned can be read; null: unknown. */
  public Columns.Racks of(List<Executor> executors, List<OffsetRange> ranges)
      throws InterruptedException {
    plans++;
    Columns.Racks found = null;
    if (executors.stream().anyMatch(e -> e.rack() != null)) {
      try {
        if (replicas == null) {
          replicas = new ReplicaRacks(kafka, options.reader().equals("shared"));
        }
        found = replicas.of(ranges);
      } catch (RuntimeException | LinkageError e) {
        if (!warned) {
          LOG.warn("assignor-bridge plans without the racks of replicas (warned once)", e);
          warned = true;
        }
      }
    }
    tell(executors, ranges.size(), found);
    return found;
  }

  /** Another batch begins, whoever plans it. */
  public void begin() {
    bytes.add(received.drain());
    bytes.begin();
  }

  /** What readers have received so far, and how much of it from other racks. */
  public Map<String, String> metrics() {
    bytes.add(received.drain());
    return bytes.metrics(replicas == null ? Map.of() : replicas.ofBrokers());
  }

  /** Says once what would have to change, if the planner sees that. */
  public void planned(Map<String, String> metrics) {
    String advice = metrics.get("zoneAdvice");
    if (advice != null && !advised) {
      LOG.warn("assignor-bridge reads across zones (told once): {}", advice);
      advised = true;
    }
  }

  @Override
  public void close() {
    if (replicas != null) {
      replicas.close();
    }
  }

  /** Says once what is known, as soon as it can be. */
  private void tell(List<Executor> executors, int ranges, Columns.Racks found) {
    boolean configured = options.rack() != null || options.rackFile() != null;
    if (told
        || executors.isEmpty()
        || replicas == null && !configured
        || replicas != null && !replicas.wasAsked()
        || options.rack() != null && plans < PLANS_TO_HEAR_OF_ALL) {
      return;
    }
    told = true;
    long lost = executors.stream().filter(e -> e.rack() == null).count();
    String line =
        lost + " of " + executors.size() + " executors have no known rack; racks of the others: "
            + listed(executors.stream().map(Executor::rack).toList());
    if (lost > 0) {
      line += " (SPARK_EXECUTOR_ATTRIBUTE_RACK, assignor.rack or assignor.rackFile say where they are)";
    }
    long unknown = ranges;
    if (replicas != null) {
      unknown = found == null ? ranges : found.unknown();
      line += "; " + unknown + " of " + ranges + " partitions have none; racks of the others: "
          + listed(found == null ? List.of() : found.sets().stream().flatMap(List::stream).toList());
      if (unknown > 0) {
        line += " (broker.rack of Kafka's brokers says where they are)";
      }
    }
    String text = "assignor-bridge plans by zones: " + line + "; unknown counts as near to all (told once)";
    if (lost + unknown > 0) {
      LOG.warn(text);
    } else {
      LOG.info(text);
    }
  }

  private static String listed(List<String> racks) {
    TreeSet<String> distinct = new TreeSet<>();
    racks.stream().filter(Objects::nonNull).forEach(distinct::add);
    return distinct.isEmpty() ? "none" : String.join(", ", distinct);
  }

  /**
   * Bytes that readers received from brokers in other racks. They wait, by the reader's rack and the
   * broker, until it is known where the broker is; what is counted then stays counted. Unknown is
   * unknown: bytes of which one end has no rack neither cross nor stay.
   */
  static final class CrossZoneBytes {
    private record Way(String rack, int broker) {}

    private final Map<Way, Long> waiting = new HashMap<>();
    private final Map<Way, Long> ofBatch = new HashMap<>();
    private boolean hasReaders;
    private long received;
    private long located;
    private long crossed;

    void begin() {
      ofBatch.clear();
    }

    void add(List<ExecutorRacks.Received> tasks) {
      for (ExecutorRacks.Received task : tasks) {
        task.bytes()
            .forEach(
                (broker, bytes) -> {
                  hasReaders = true;
                  received += bytes;
                  waiting.merge(new Way(task.rack(), broker), bytes, Long::sum);
                  ofBatch.merge(new Way(task.rack(), broker), bytes, Long::sum);
                });
      }
    }

    /** `racks` are the brokers', by id; nothing while no reader knows where it is. */
    Map<String, String> metrics(Map<Integer, String> racks) {
      located += sum(waiting, racks, false);
      crossed += sum(waiting, racks, true);
      waiting.keySet().removeIf(way -> racks.containsKey(way.broker()));
      Map<String, String> all = new TreeMap<>();
      if (hasReaders) {
        all.put("assignor.receivedBytes", Long.toString(received));
      }
      if (located > 0) {
        all.put("assignor.crossZoneBytes", Long.toString(crossed));
      }
      long known = sum(ofBatch, racks, false);
      if (known > 0) {
        double share = sum(ofBatch, racks, true) / (double) known;
        all.put("assignor.crossZoneShare", String.format(Locale.ROOT, "%.4f", share));
      }
      return all;
    }

    /** Of brokers with a known rack; `crossing`: only of those in another rack than the reader. */
    private static long sum(Map<Way, Long> bytes, Map<Integer, String> racks, boolean crossing) {
      return bytes.entrySet().stream()
          .filter(
              one -> {
                String rack = racks.get(one.getKey().broker());
                return rack != null && !(crossing && rack.equals(one.getKey().rack()));
              })
          .mapToLong(Map.Entry::getValue)
          .sum();
    }
  }
}
