package io.assignorbridge.kafka;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
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
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Requests the current end offsets of the partitions that a stream reads, with the stream's own
 * Kafka settings. The metrics exporter calls {@link #request} on its own thread, so no batch waits
 * for the brokers. Without an exporter, no request is sent.
 */
public final class LogEndOffsets implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(LogEndOffsets.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  /** Includes ended streams, until {@link #setLatestOffset} of another stream removes them. */
  private static final Set<LogEndOffsets> STREAMS = ConcurrentHashMap.newKeySet();
  private static final long MIN_INTERVAL_NANOS = TimeUnit.SECONDS.toNanos(1); // after an answer
  private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(30); // after a failed request
  private static final long STALE_NANOS = TimeUnit.SECONDS.toNanos(120); // after an answer

  private final KafkaAdmin admin;
  private final IsolationLevel isolation;
  private final String queryId;
  private final String source;
  private volatile Offset latestOffset; // the end offsets when the last batch was planned
  private volatile Offset fixedEnd; // where the query stops; used until a broker answers
  private volatile Map<TopicPartition, Long> endByPartition = Map.of();
  private volatile long answeredNanos; // time of the last answer
  private long nextRequestNanos = System.nanoTime(); // earliest time of the next request
  private boolean hasWarned;

  public LogEndOffsets(Map<String, String> kafkaSettings, String queryId, String metadataPath) {
    admin = new KafkaAdmin(kafkaSettings);
    isolation =
        "read_committed".equalsIgnoreCase(kafkaSettings.get("isolation.level"))
            ? IsolationLevel.READ_COMMITTED
            : IsolationLevel.READ_UNCOMMITTED;
    this.queryId = String.valueOf(queryId);
    source = metadataPath.substring(metadataPath.lastIndexOf('/') + 1); // CHECKPOINT/sources/0
  }

  /**
   * Returns the end offsets of a query (null: of all queries) as JSON, by query ID, source, topic,
   * and partition. Waits at most `timeoutMs`; omits sources whose last answer is two minutes old.
   */
  public static String request(String queryId, int timeoutMs) throws JsonProcessingException {
    long deadlineNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    Map<String, Map<String, Map<String, Map<Integer, Long>>>> endsByQuery = new TreeMap<>();
    for (LogEndOffsets stream : STREAMS) {
      if (queryId == null || queryId.equals(stream.queryId)) {
        stream.requestEnds((int) TimeUnit.NANOSECONDS.toMillis(deadlineNanos - System.nanoTime()));
        Map<String, Map<Integer, Long>> endsByTopic = stream.groupByTopic();
        if (!endsByTopic.isEmpty()) {
          endsByQuery
              .computeIfAbsent(stream.queryId, id -> new TreeMap<>())
              .put(stream.source, endsByTopic);
        }
      }
    }
    return JSON.writeValueAsString(endsByQuery);
  }

  /** Stores the logs' end offsets for a batch. A fixed end is used until a broker answers. */
  public void setLatestOffset(Offset latestOffset, boolean hasFixedEnd) {
    this.latestOffset = latestOffset;
    if (hasFixedEnd && fixedEnd == null) {
      fixedEnd = latestOffset;
      answeredNanos = System.nanoTime();
    }
    if (!STREAMS.contains(this)) {
      STREAMS.removeIf(s -> s.admin.isEnded() && (s.isStale() || queryId.equals(s.queryId)));
      STREAMS.add(this);
    }
  }

  @Override
  public void close() {
    admin.close(); // aborts the current request
  }

  private boolean isStale() {
    return System.nanoTime() - answeredNanos > STALE_NANOS;
  }

  private Map<String, Map<Integer, Long>> groupByTopic() {
    Map<String, Map<Integer, Long>> endsByTopic = new TreeMap<>();
    if (!isStale()) {
      boolean useFixedEnd = endByPartition.isEmpty() && fixedEnd != null;
      var offsetByPartition = useFixedEnd ? SourceOffsets.of(fixedEnd) : endByPartition;
      offsetByPartition.forEach(
          (p, end) ->
              endsByTopic.computeIfAbsent(p.topic(), t -> new TreeMap<>()).put(p.partition(), end));
    }
    return endsByTopic;
  }

  private synchronized void requestEnds(int timeoutMs) {
    if (timeoutMs <= 0 || admin.isEnded() || System.nanoTime() - nextRequestNanos < 0) {
      return;
    }
    nextRequestNanos = System.nanoTime() + RETRY_NANOS; // earlier if there is an answer
    Map<TopicPartition, OffsetSpec> specByPartition =
        SourceOffsets.partitionsOf(latestOffset).stream()
            .collect(Collectors.toMap(p -> p, p -> OffsetSpec.latest()));
    Map<TopicPartition, Long> newEndByPartition = new HashMap<>();
    try {
      var options = new ListOffsetsOptions(isolation).timeoutMs(timeoutMs);
      var endResults = admin.open().listOffsets(specByPartition, options);
      for (TopicPartition p : specByPartition.keySet()) {
        try {
          newEndByPartition.put(p, endResults.partitionResult(p).get().offset());
        } catch (ExecutionException e) { // other partitions may still have a leader
          warnOnce(e.getCause());
        }
      }
    } catch (InterruptedException e) {
      LOG.debug("the query has ended");
    } catch (RuntimeException | LinkageError e) {
      warnOnce(e);
    }
    if (!newEndByPartition.isEmpty()) {
      endByPartition = newEndByPartition;
      answeredNanos = System.nanoTime();
      nextRequestNanos = answeredNanos + MIN_INTERVAL_NANOS;
    }
  }

  private void warnOnce(Throwable error) {
    if (!hasWarned && !admin.isEnded()) {
      hasWarned = true;
      LOG.warn(
          "assignor-bridge could not request all end offsets of query {}, so its lag is incomplete"
              + " (the query continues; logged once): {}",
          queryId, admin.describe(error));
    }
  }
}
