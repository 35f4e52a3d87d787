package io.assignorbridge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Measures how far a stream is behind: the ends of the logs against the end of the last completed
 * batch. Spark looks the ends up when it plans a batch. In between, the exporter of metrics has them
 * requested from the brokers, on its own thread. So no batch waits for an answer, and without an
 * exporter no request is sent.
 */
public final class LagMeter implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(LagMeter.class);
  private static final Set<LagMeter> METERS = ConcurrentHashMap.newKeySet(); // the ended ones, too
  private static final long FRESH_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(30); // after a failed request
  private static final long STALE_NANOS = TimeUnit.SECONDS.toNanos(120);

  private record Stamp(long offset, long millis) {}

  /** Of one source: by topic and partition the log's end, the lag, and its seconds if known. */
  record Measured(String query, String source, Map<String, Map<Integer, Number[]>> partitions) {}

  private final KafkaAdmin admin;
  private final IsolationLevel isolation;
  private final String query;
  private final String source;
  private volatile boolean hasWarned;

  private Map<TopicPartition, Long> ends = Map.of(); // as the brokers answered last
  private volatile long answeredNanos;
  private long requestNanos; // the next request is sent after this time
  private Map<TopicPartition, Long> consumed = Map.of();
  private Map<TopicPartition, Long> plannedFrom; // null if a request was answered after planning
  private Map<TopicPartition, Long> planned = Map.of(); // ends when the last batch was planned
  private long plannedMillis;
  private final Map<TopicPartition, Stamp> newestRead = new HashMap<>(); // by the end of its range

  /** No unread record of the partition was written before this time. */
  private final Map<TopicPartition, Long> unreadSinceMillis = new HashMap<>();

  /** `kafka` holds the stream's own settings of its Kafka client, without the prefix. */
  LagMeter(Map<String, String> kafka, String query, String metadataPath) {
    admin = new KafkaAdmin(kafka);
    isolation =
        "read_committed".equalsIgnoreCase(kafka.get("isolation.level"))
            ? IsolationLevel.READ_COMMITTED
            : IsolationLevel.READ_UNCOMMITTED;
    this.query = String.valueOf(query);
    source = metadataPath.substring(metadataPath.lastIndexOf('/') + 1); // CHECKPOINT/sources/0
  }

  /** Measures the streams of a query, or with null all, as JSON; brokers have so long to answer. */
  public static String measure(String query, int limitMs) throws PlannerException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMs);
    List<Measured> all = new ArrayList<>();
    for (LagMeter meter : METERS) {
      if (query == null || query.equals(meter.query)) {
        meter.request((int) TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime()));
        all.add(meter.measured());
      }
    }
    return Messages.write(all);
  }

  /** Notes that Spark plans a batch; `latest` is of the query's start if its end is fixed. */
  synchronized void plan(
      Map<TopicPartition, Long> start, Map<TopicPartition, Long> latest, boolean hasFixedEnd) {
    consumed = start;
    planned = hasFixedEnd ? Map.of() : latest;
    plannedMillis = System.currentTimeMillis();
    if (!hasFixedEnd || ends.isEmpty()) {
      note(latest, plannedMillis);
      plannedFrom = hasFixedEnd ? null : start;
    }
    if (!METERS.contains(this)) {
      METERS.removeIf(
          other ->
              other.admin.isEnded()
                  && (other.isStale() || query.equals(other.query) && source.equals(other.source)));
      METERS.add(this);
    }
  }

  /** Takes in what finished readers sent. */
  synchronized void read(List<ReadReport> reports) {
    for (ReadReport r : reports) {
      if (r.oldest() <= r.newest()) {
        newestRead.merge(
            new TopicPartition(r.topic(), r.partition()),
            new Stamp(r.until(), r.newest()),
            (one, other) -> one.offset() > other.offset() ? one : other);
      }
    }
  }

  /** Notes where completed batches end, which an idle trigger repeats; returns the metrics. */
  synchronized Map<String, String> complete(Map<TopicPartition, Long> end) {
    if (!end.equals(consumed)) {
      end.forEach(this::complete);
      consumed = end;
      requestNanos = System.nanoTime();
      newestRead.keySet().retainAll(end.keySet());
      unreadSinceMillis.keySet().retainAll(end.keySet());
    }
    var lags = lags().values().stream().mapToLong(lag -> lag).summaryStatistics();
    return lags.getCount() == 0
        ? Map.of()
        : Map.of(
            "assignor.lagRecords", Long.toString(lags.getSum()),
            "assignor.lagRecordsMax", Long.toString(lags.getMax()));
  }

  private void complete(TopicPartition p, long offset) {
    Stamp read = newestRead.get(p);
    if (offset >= planned.getOrDefault(p, Long.MAX_VALUE)) {
      unreadSinceMillis.merge(p, plannedMillis, Math::max);
    } else if (read != null && read.offset() == offset) { // records of a partition are in order
      unreadSinceMillis.put(p, read.millis());
    } else if (offset != consumed.getOrDefault(p, -1L)) {
      unreadSinceMillis.remove(p);
    }
  }

  @Override
  public synchronized void close() {
    admin.close(); // ends the request under way
    plannedFrom = null; // the last batch may be completed
  }

  private void note(Map<TopicPartition, Long> answer, long millis) {
    ends = answer;
    plannedFrom = null;
    answeredNanos = System.nanoTime();
    requestNanos = answeredNanos + FRESH_NANOS;
    answer.forEach(
        (p, end) -> {
          if (end <= consumed.getOrDefault(p, -1L)) {
            unreadSinceMillis.put(p, millis);
          }
        });
  }

  private boolean isStale() {
    return System.nanoTime() - answeredNanos > STALE_NANOS;
  }

  /**
   * Ends that Spark looked up count with the offsets of that moment. Against the end of the batch
   * that was planned then, lag would always be 0.
   */
  private Map<TopicPartition, Long> lags() {
    Map<TopicPartition, Long> from = plannedFrom == null ? consumed : plannedFrom;
    return ends.entrySet().stream()
        .filter(one -> !isStale() && from.containsKey(one.getKey()))
        .collect(
            Collectors.toMap(
                Map.Entry::getKey, one -> Math.max(0, one.getValue() - from.get(one.getKey()))));
  }

  private synchronized Measured measured() {
    long now = System.currentTimeMillis();
    Map<String, Map<Integer, Number[]>> partitions = new TreeMap<>();
    lags()
        .forEach(
            (p, lag) -> {
              Long since = lag == 0 ? Long.valueOf(now) : unreadSinceMillis.get(p);
              Double seconds = since == null ? null : Math.max(0, now - since) / 1000.0;
              partitions
                  .computeIfAbsent(p.topic(), t -> new TreeMap<>())
                  .put(p.partition(), new Number[] {ends.get(p), lag, seconds});
            });
    return new Measured(query, source, partitions);
  }

  /** Requests the ends from the brokers, if the last answer is not a fresh one. */
  private void request(int limitMs) {
    Map<TopicPartition, OffsetSpec> latest;
    synchronized (this) {
      if (limitMs <= 0 || admin.isEnded() || System.nanoTime() < requestNanos) {
        return;
      }
      requestNanos = System.nanoTime() + RETRY_NANOS; // an answer makes it earlier
      Set<TopicPartition> partitions = planned.isEmpty() ? consumed.keySet() : planned.keySet();
      latest = partitions.stream().collect(Collectors.toMap(p -> p, p -> OffsetSpec.latest()));
    }
    long millis = System.currentTimeMillis();
    Map<TopicPartition, Long> answer = new HashMap<>();
    try {
      var options = new ListOffsetsOptions(isolation).timeoutMs(limitMs);
      ListOffsetsResult result;
      synchronized (admin) {
        result = admin.open().listOffsets(latest, options);
      }
      for (TopicPartition p : latest.keySet()) {
        try {
          answer.put(p, result.partitionResult(p).get().offset());
        } catch (ExecutionException e) { // of this partition; others may have a leader
          warn(e.getCause());
        }
      }
    } catch (InterruptedException e) {
      LOG.debug("the query has ended");
    } catch (RuntimeException | LinkageError e) {
      warn(e);
    }
    synchronized (this) {
      if (!answer.isEmpty()) {
        note(answer, millis);
      }
    }
  }

  private void warn(Throwable error) {
    if (!hasWarned && !admin.isEnded()) {
      hasWarned = true;
      LOG.warn(
          "assignor-bridge cannot measure the lag of query {} (the query continues; warned once): {}",
          query,
          admin.inWords(error));
    }
  }
}
