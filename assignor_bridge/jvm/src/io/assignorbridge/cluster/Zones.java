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
 * The racks of a stream's executors and replicas. If no executor has a rack, Kafka gets no request
 * and the planner gets no racks. After a failure, the batch is planned without replica racks.
 */
public final class Zones implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Zones.class);
  private static final int MIN_PLANS_BEFORE_LOG = 3; // readers report their racks after a batch

  private final SparkContext context;
  private final Map<String, String> kafkaSettings;
  private final Messages.EffectiveOptions options;
  private final ExecutorRacks executorRacks;
  private final ReportAccumulator<ExecutorRacks.TaskTraffic> traffic = new ReportAccumulator<>();
  private final CrossZoneBytes crossZoneBytes = new CrossZoneBytes();
  private ReplicaRacks replicaRacks; // null before an executor has a rack
  private int planCount;
  private boolean hasLoggedRacks;
  private boolean hasLoggedAdvice;
  private boolean hasWarned;

  /** Creates the zones; fails if the rack file cannot be used. */
  public Zones(
      SparkContext context, Messages.EffectiveOptions options, Map<String, String> kafkaSettings)
      throws PlannerException {
    this.context = context;
    this.options = options;
    this.kafkaSettings = kafkaSettings;
    executorRacks = new ExecutorRacks(context, options.rack(), options.rackFile());
    context.register(traffic);
  }

  public List<Executor> listExecutors() {
    return ExecutorList.listExecutors(context, executorRacks);
  }

  public ExecutorRacks.ReaderRacks toReaderRacks(List<Executor> executors) {
    return executorRacks.toReaderRacks(executors, traffic);
  }

  /** Returns the racks from which each range can be read, or null if unknown; call once per plan. */
  public Columns.Racks findRacks(List<Executor> executors, List<OffsetRange> ranges)
      throws InterruptedException {
    planCount++;
    Columns.Racks rangeRacks = null;
    if (executors.stream().anyMatch(e -> e.rack() != null)) {
      try {
        if (replicaRacks == null) {
          replicaRacks = new ReplicaRacks(kafkaSettings, options.reader().equals("shared"));
        }
        rangeRacks = replicaRacks.findRacks(ranges);
      } catch (RuntimeException | LinkageError e) {
        if (!hasWarned) {
          LOG.warn("assignor-bridge plans without replica racks after this error (logged once)", e);
          hasWarned = true;
        }
      }
    }
    logRacksOnce(executors, ranges.size(), rangeRacks);
    return rangeRacks;
  }

  /** Starts to count the bytes of the next batch, whether or not the planner plans it. */
  public void beginBatch() {
    crossZoneBytes.add(traffic.drain());
    crossZoneBytes.beginBatch();
  }

  /** Returns the metrics of the bytes that readers have received, in total and from other racks. */
  public Map<String, String> metrics() {
    crossZoneBytes.add(traffic.drain());
    return crossZoneBytes.metrics(replicaRacks == null ? Map.of() : replicaRacks.rackByBroker());
  }

  /** Logs the planner's advice about zones, if it has any, once. */
  public void logAdvice(Map<String, String> metrics) {
    String advice = metrics.get("zoneAdvice");
    if (advice != null && !hasLoggedAdvice) {
      LOG.warn("assignor-bridge reads across zones (logged once): {}", advice);
      hasLoggedAdvice = true;
    }
  }

  @Override
  public void close() {
    if (replicaRacks != null) {
      replicaRacks.close();
    }
  }

  /** Logs the racks once, when executors could report theirs and Kafka could return the replicas'. */
  private void logRacksOnce(List<Executor> executors, int rangeCount, Columns.Racks rangeRacks) {
    boolean isConfigured = options.rack() != null || options.rackFile() != null;
    if (hasLoggedRacks
        || executors.isEmpty()
        || replicaRacks == null && !isConfigured
        || replicaRacks != null && !replicaRacks.hasFinishedFirstRequest()
        || options.rack() != null && planCount < MIN_PLANS_BEFORE_LOG) {
      return;
    }
    hasLoggedRacks = true;
    long unknownExecutorCount = executors.stream().filter(e -> e.rack() == null).count();
    String summary =
        unknownExecutorCount + " of " + executors.size()
            + " executors have no known rack; racks of the others: "
            + joinDistinct(executors.stream().map(Executor::rack).toList());
    if (unknownExecutorCount > 0) {
      summary += " (set one by SPARK_EXECUTOR_ATTRIBUTE_RACK, assignor.rack, or assignor.rackFile)";
    }
    long unknownRangeCount = rangeCount;
    if (replicaRacks != null) {
      unknownRangeCount = rangeRacks == null ? rangeCount : rangeRacks.countUnknown();
      List<List<String>> rackSets = rangeRacks == null ? List.of() : rangeRacks.sets();
      summary +=
          "; " + unknownRangeCount + " of " + rangeCount
              + " partitions have no known rack; racks of the others: "
              + joinDistinct(rackSets.stream().flatMap(List::stream).toList());
      if (unknownRangeCount > 0) {
        summary += " (check that broker.rack is set on all Kafka brokers)";
      }
    }
    String text =
        "assignor-bridge plans by zones: " + summary + "; unknown racks count as near to all (logged once)";
    if (unknownExecutorCount + unknownRangeCount > 0) {
      LOG.warn(text);
    } else {
      LOG.info(text);
    }
  }

  private static String joinDistinct(List<String> racks) {
    TreeSet<String> distinctRacks = new TreeSet<>();
    racks.stream().filter(Objects::nonNull).forEach(distinctRacks::add);
    return distinctRacks.isEmpty() ? "none" : String.join(", ", distinctRacks);
  }

  /**
   * Counts the bytes that readers received, in total and from brokers in other racks. If a broker's
   * rack is unknown, its bytes are attributed when the rack becomes known.
   */
  static final class CrossZoneBytes {
    private record Route(String readerRack, int broker) {}

    private final Map<Route, Long> unlocatedBytesByRoute = new HashMap<>();
    private final Map<Route, Long> batchBytesByRoute = new HashMap<>();
    private boolean hasReports; // whether a reader with a rack has reported
    private long receivedBytes;
    private long locatedBytes; // from brokers with a known rack
    private long crossZoneBytes; // from brokers in other racks

    void beginBatch() {
      batchBytesByRoute.clear();
    }

    void add(List<ExecutorRacks.TaskTraffic> tasks) {
      for (ExecutorRacks.TaskTraffic task : tasks) {
        task.bytesByBroker()
            .forEach(
                (broker, bytes) -> {
                  hasReports = true;
                  receivedBytes += bytes;
                  unlocatedBytesByRoute.merge(new Route(task.rack(), broker), bytes, Long::sum);
                  batchBytesByRoute.merge(new Route(task.rack(), broker), bytes, Long::sum);
                });
      }
    }

    /** Returns the metrics; empty until a reader with a rack has reported. */
    Map<String, String> metrics(Map<Integer, String> rackByBroker) {
      locatedBytes += sum(unlocatedBytesByRoute, rackByBroker, false);
      crossZoneBytes += sum(unlocatedBytesByRoute, rackByBroker, true);
      unlocatedBytesByRoute.keySet().removeIf(route -> rackByBroker.containsKey(route.broker()));
      Map<String, String> metrics = new TreeMap<>();
      if (hasReports) {
        metrics.put("assignor.receivedBytes", Long.toString(receivedBytes));
      }
      if (locatedBytes > 0) {
        metrics.put("assignor.crossZoneBytes", Long.toString(crossZoneBytes));
      }
      long locatedBatchBytes = sum(batchBytesByRoute, rackByBroker, false);
      if (locatedBatchBytes > 0) {
        double share = sum(batchBytesByRoute, rackByBroker, true) / (double) locatedBatchBytes;
        metrics.put("assignor.crossZoneShare", String.format(Locale.ROOT, "%.4f", share));
      }
      return metrics;
    }

    /** Sums bytes from brokers with a known rack; with `onlyCrossing`, only from other racks. */
    private static long sum(
        Map<Route, Long> bytesByRoute, Map<Integer, String> rackByBroker, boolean onlyCrossing) {
      return bytesByRoute.entrySet().stream()
          .filter(
              entry -> {
                String rack = rackByBroker.get(entry.getKey().broker());
                return rack != null && !(onlyCrossing && rack.equals(entry.getKey().readerRack()));
              })
          .mapToLong(Map.Entry::getValue)
          .sum();
    }
  }
}
