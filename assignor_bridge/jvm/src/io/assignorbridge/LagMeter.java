package io.assignorbridge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Measures how far a stream is behind: the ends of the logs against the end of the last completed
 * batch. Spark looks the ends up when it plans a batch. If that was some seconds ago, as in a long
 * batch, a daemon thread requests them from the brokers. No batch waits for the thread. While brokers
 * do not answer, their last answer is used for two minutes.
 */
public final class LagMeter implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(LagMeter.class);
  private static final Set<LagMeter> METERS = ConcurrentHashMap.newKeySet(); // the ended ones, too
  private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(2);
  private static final long LONGEST_PAUSE_NANOS = TimeUnit.SECONDS.toNanos(30);
  private static final long STALE_NANOS = TimeUnit.SECONDS.toNanos(120); // or long ended
  private static final int PAUSE_PER_REQUEST = 20; // so that brokers spend at most 5% of their time
  private static final int LIMIT_MS = 30_000;

  private record Stamp(long offset, long millis) {}

  /** Of one source: by topic and partition the log's end, the lag, and its seconds if known. */
  record Measured(String query, String source, Map<String, Map<Integer, Number[]>> partitions) {}

  private final KafkaAdmin admin;
  private final IsolationLevel isolation;
  private final String query;
  private final String source;
  private final Thread thread = LatestOnlyExecutor.daemons("assignor-lag").newThread(this::work);
  private boolean hasWarned; // on the thread

  private Map<TopicPartition, Long> ends = Map.of(); // as the brokers answered last
  private volatile long answeredNanos;
  private long dueNanos; // when the thread sends its next request
  private boolean isOutdated; // a batch was completed after the last answer
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

  /** Measures all streams as JSON; waits for brokers if a batch was completed since they answered. */
  public static String measure(long waitMs) throws PlannerException, InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
    List<Measured> all = new ArrayList<>();
    for (LagMeter meter : METERS) {
      all.add(meter.measureBy(deadline));
    }
    return Messages.write(all);
  }

  /** Notes that Spark plans a batch; `latest` is of the query's start if its end is fixed. */
  synchronized void plan(
      Map<TopicPartition, Long> start, Map<TopicPartition, Long> latest, boolean hasFixedEnd) {
    consumed = start;
    planned = hasFixedEnd ? Map.of() : latest;
    plannedMillis = System.currentTimeMillis();
    if (!hasFixedEnd) {
      note(latest, plannedMillis);
      plannedFrom = start;
    } else if (ends.isEmpty()) {
      note(latest, plannedMillis);
    }
    if (!METERS.contains(this)) {
      METERS.removeIf(other -> other.admin.isEnded() && (other.isOf(this) || !other.isFresh()));
      METERS.add(this);
      dueNanos = System.nanoTime() + PAUSE_NANOS;
      thread.start();
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
      isOutdated = true;
      newestRead.keySet().retainAll(end.keySet());
      unreadSinceMillis.keySet().retainAll(end.keySet());
    }
    LongSummaryStatistics lags =
        ends.keySet().stream()
            .filter(p -> isFresh() && from().containsKey(p))
            .mapToLong(this::lag)
            .summaryStatistics();
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
    thread.interrupt();
    isOutdated = false; // there will be no other answer
    notifyAll();
  }

  private void note(Map<TopicPartition, Long> answer, long millis) {
    ends = answer;
    plannedFrom = null;
    answeredNanos = System.nanoTime();
    dueNanos = answeredNanos + PAUSE_NANOS;
    isOutdated = false;
    answer.forEach(
        (p, end) -> {
          if (end <= consumed.getOrDefault(p, -1L)) {
            unreadSinceMillis.put(p, millis);
          }
        });
    notifyAll();
  }

  private boolean isOf(LagMeter other) {
    return query.equals(other.query) && source.equals(other.source);
  }

  private boolean isFresh() {
    return System.nanoTime() - answeredNanos < STALE_NANOS;
  }

  /**
   * What the ends are compared with. Short batches have no other answer than that of their planning,
   * so it counts with the offsets of that moment; else their lag would always be 0.
   */
  private Map<TopicPartition, Long> from() {
    return plannedFrom == null ? consumed : plannedFrom;
  }

  private long lag(TopicPartition p) {
    return Math.max(0, ends.get(p) - from().get(p));
  }

  private synchronized Measured measureBy(long deadline) throws InterruptedException {
    if (isOutdated) {
      dueNanos = System.nanoTime();
      notifyAll();
    }
    for (long rest = 1; isOutdated && rest > 0; ) {
      rest = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
      wait(Math.max(1, rest));
    }
    long now = System.currentTimeMillis();
    Map<String, Map<Integer, Number[]>> partitions = new TreeMap<>();
    if (isFresh()) {
      ends.forEach(
          (p, end) -> {
            if (from().containsKey(p)) {
              Long since = unreadSinceMillis.get(p);
              Double seconds = since == null ? null : Math.max(0, now - since) / 1000.0;
              Number[] figures = {end, lag(p), lag(p) == 0 ? Double.valueOf(0) : seconds};
              partitions.computeIfAbsent(p.topic(), t -> new TreeMap<>()).put(p.partition(), figures);
            }
          });
    }
    return new Measured(query, source, partitions);
  }

  private void work() {
    try {
      while (true) {
        request(awaitTurn());
      }
    } catch (InterruptedException e) {
      LOG.debug("the query has ended");
    }
  }

  private synchronized Set<TopicPartition> awaitTurn() throws InterruptedException {
    for (long rest; (rest = dueNanos - System.nanoTime()) > 0; ) {
      TimeUnit.NANOSECONDS.timedWait(this, rest);
    }
    return Set.copyOf(planned.isEmpty() ? consumed.keySet() : planned.keySet());
  }

  private void request(Set<TopicPartition> partitions) throws InterruptedException {
    long millis = System.currentTimeMillis();
    long startedNanos = System.nanoTime();
    Map<TopicPartition, Long> answer = new HashMap<>();
    try {
      Map<TopicPartition, OffsetSpec> latest =
          partitions.stream().collect(Collectors.toMap(p -> p, p -> OffsetSpec.latest()));
      var result =
          admin.open().listOffsets(latest, new ListOffsetsOptions(isolation).timeoutMs(LIMIT_MS));
      for (TopicPartition p : partitions) {
        try {
          answer.put(p, result.partitionResult(p).get().offset());
        } catch (ExecutionException e) { // of this partition; another may have a leader
          warn(e.getCause());
        }
      }
    } catch (RuntimeException | LinkageError e) {
      warn(e);
    }
    synchronized (this) {
      if (!answer.isEmpty()) {
        note(answer, millis);
      }
      long pause = PAUSE_PER_REQUEST * (System.nanoTime() - startedNanos);
      dueNanos =
          System.nanoTime() + Math.max(PAUSE_NANOS, Math.min(pause, LONGEST_PAUSE_NANOS));
    }
  }

  private void warn(Throwable error) {
    if (!hasWarned && !admin.isEnded()) {
      LOG.warn(
          "assignor-bridge cannot measure the lag of query {} (the query continues; warned once): {}",
          query,
          admin.inWords(error));
      hasWarned = true;
    }
  }
}
