package io.assignorbridge.admission;

import io.assignorbridge.kafka.SecuredParams;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.model.ReadReport;
import io.assignorbridge.worker.Columns;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Kafka's timestamps of the first unread records, for options that need them. After a completed
 * batch, they need no request: readers report the newest timestamp of each range, and the next
 * record is about as new if records are in order. If an offset has no report (in the first batch,
 * for a new partition, or after a lost report), a consumer without a group reads the record at that
 * offset. Only the stream's thread uses this class.
 */
public final class RecordTimes implements AutoCloseable {
  /** Thrown if Kafka returned no timestamps; the planner then need not forget the stream. */
  public static final class NoTimesException extends PlannerException {
    private static final long serialVersionUID = 1L;

    NoTimesException(String message) {
      super(message);
    }
  }

  private static final Logger LOG = LoggerFactory.getLogger(RecordTimes.class);
  private static final int MAX_FETCH_BYTES = 8 * 1024 * 1024;
  private static final int MAX_PARTITION_BYTES = 64 * 1024; // fits most producer batches
  private static final int MAX_POLL_RECORDS = 1_000_000; // a poll returns whole responses
  private static final long MAX_POLL_MS = 100;
  private static final long NONE = -1; // no timestamp, or no offset

  private final Map<String, Object> kafkaSettings;

  /** The timestamp of a record (`isExact`), or else of the newest record read before it. */
  private record Timestamp(long millis, boolean isExact) {}

  /** By partition and offset; entries below the first unread offset are removed. */
  private final Map<TopicPartition, TreeMap<Long, Timestamp>> timesByPartition = new HashMap<>();

  private Consumer<byte[], byte[]> consumer; // null before the first use and after a failure
  private SecuredParams params; // the parameters of the consumer

  public RecordTimes(Map<String, String> kafkaSettings) {
    this.kafkaSettings = new HashMap<>(kafkaSettings);
  }

  /** Removes partitions that the stream no longer reads. */
  public void retain(Set<TopicPartition> livePartitions) {
    if (timesByPartition.size() > livePartitions.size()) {
      timesByPartition.keySet().retainAll(livePartitions);
    }
  }

  /** Stores each range's newest timestamp (if any) as an estimate for the offset at its end. */
  public void add(List<ReadReport> reports) {
    for (ReadReport r : reports) {
      if (r.oldestMillis() <= r.newestMillis()) {
        timestampsOf(new TopicPartition(r.topic(), r.partition()))
            .putIfAbsent(r.end(), new Timestamp(r.newestMillis(), false));
      }
    }
  }

  /** Returns each range's first timestamp (-1 if it has none); requests those not yet stored. */
  public Columns.Times findTimes(List<OffsetRange> unreadRanges, long timeoutMs)
      throws PlannerException, InterruptedException {
    long nowMs = System.currentTimeMillis();
    Map<TopicPartition, OffsetRange> unknownRangeByPartition = new HashMap<>();
    for (OffsetRange range : unreadRanges) {
      TreeMap<Long, Timestamp> timestampByOffset = timestampsOf(partitionOf(range));
      timestampByOffset.headMap(range.start()).clear();
      if (!timestampByOffset.containsKey(range.start())) {
        unknownRangeByPartition.put(partitionOf(range), range);
      }
    }
    if (!unknownRangeByPartition.isEmpty()) {
      withConsumer(
          client -> {
            readFirstRecords(client, unknownRangeByPartition, timeoutMs);
            return null;
          });
    }
    return Columns.Times.of(nowMs, unreadRanges, range -> firstTimestamp(range).millis());
  }

  /**
   * Looks up each partition's first offset with a timestamp of at least `millis`. Returns these
   * offsets (-1 if none), the ranges' timestamps, and `lookUpCount`, which includes this look-up.
   */
  public Columns.Times lookUp(
      int lookUpCount, long millis, List<OffsetRange> unreadRanges, long timeoutMs)
      throws PlannerException, InterruptedException {
    Map<TopicPartition, Long> millisByPartition =
        unreadRanges.stream().collect(Collectors.toMap(RecordTimes::partitionOf, range -> millis));
    Map<TopicPartition, OffsetAndTimestamp> resultByPartition =
        withConsumer(client -> client.offsetsForTimes(millisByPartition, Duration.ofMillis(timeoutMs)));
    boolean hasPause = false;
    for (OffsetRange range : unreadRanges) {
      OffsetAndTimestamp result = resultByPartition.get(partitionOf(range));
      if (result != null && result.offset() >= range.start()) {
        TreeMap<Long, Timestamp> timestampByOffset = timestampsOf(partitionOf(range));
        timestampByOffset.tailMap(range.start(), false).clear(); // results of earlier look-ups
        timestampByOffset.put(result.offset(), new Timestamp(result.timestamp(), true));
        hasPause |= result.offset() == range.start();
      }
    }
    if (hasPause) { // a producer paused, so older estimates may be wrong: read those records
      long oldestExactMillis =
          unreadRanges.stream()
              .map(this::firstTimestamp)
              .filter(timestamp -> timestamp.isExact && timestamp.millis >= 0)
              .mapToLong(Timestamp::millis)
              .min()
              .orElse(Long.MAX_VALUE);
      for (OffsetRange range : unreadRanges) {
        if (!firstTimestamp(range).isExact && firstTimestamp(range).millis < oldestExactMillis) {
          timestampsOf(partitionOf(range)).remove(range.start());
        }
      }
    }
    return findTimes(unreadRanges, timeoutMs)
        .withLookUp(
            lookUpCount,
            millis,
            unreadRanges,
            range -> {
              OffsetAndTimestamp result = resultByPartition.get(partitionOf(range));
              return result == null ? NONE : result.offset();
            });
  }

  @Override
  public void close() {
    Consumer<byte[], byte[]> openConsumer = consumer;
    consumer = null;
    if (openConsumer != null) {
      try {
        openConsumer.close(Duration.ofMillis(1));
      } catch (KafkaException e) { // an InterruptException sets the interrupt again
        LOG.debug("could not close the timestamp consumer", e);
      }
    }
  }

  /** Stores the timestamp of each range's first record, or NONE if the range has no records. */
  private void readFirstRecords(
      Consumer<byte[], byte[]> client,
      Map<TopicPartition, OffsetRange> rangeByPartition,
      long timeoutMs) {
    long deadlineNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    Map<TopicPartition, OffsetRange> remainingRangeByPartition = new HashMap<>(rangeByPartition);
    client.assign(remainingRangeByPartition.keySet());
    remainingRangeByPartition.forEach((partition, range) -> client.seek(partition, range.start()));
    while (!remainingRangeByPartition.isEmpty()) {
      long remainingMs = TimeUnit.NANOSECONDS.toMillis(deadlineNanos - System.nanoTime());
      if (remainingMs < 1) {
        throw new TimeoutException(
            "no answer for the first record of " + remainingRangeByPartition.size()
                + " of " + rangeByPartition.size() + " partitions within " + timeoutMs + " ms");
      }
      var records = client.poll(Duration.ofMillis(Math.min(MAX_POLL_MS, remainingMs)));
      for (TopicPartition partition : records.partitions()) {
        ConsumerRecord<byte[], byte[]> firstRecord = records.records(partition).get(0);
        OffsetRange range = rangeByPartition.get(partition);
        long millis = firstRecord.offset() < range.end() ? firstRecord.timestamp() : NONE;
        timestampsOf(partition).put(range.start(), new Timestamp(millis, true));
      }
      client.pause(records.partitions());
      remainingRangeByPartition.keySet().removeAll(records.partitions());
      if (records.isEmpty()) {
        var timeout = Duration.ofMillis(remainingMs);
        remainingRangeByPartition.values().removeIf(r -> storeIfWithoutRecords(client, r, timeout));
      }
    }
    client.unsubscribe();
  }

  /** Returns whether the range has no records, only gaps or markers; if so, stores NONE for it. */
  private boolean storeIfWithoutRecords(
      Consumer<byte[], byte[]> client, OffsetRange range, Duration timeout) {
    if (client.position(partitionOf(range), timeout) < range.end()) {
      return false;
    }
    timestampsOf(partitionOf(range)).put(range.start(), new Timestamp(NONE, true));
    return true;
  }

  private <T> T withConsumer(Function<Consumer<byte[], byte[]>, T> request)
      throws PlannerException, InterruptedException {
    try {
      return request.apply(open());
    } catch (InterruptException e) { // the query is stopped: Spark expects Java's exception
      Thread.interrupted();
      close();
      throw new InterruptedException();
    } catch (KafkaException e) {
      close();
      throw new NoTimesException(
          "Kafka did not return record timestamps: " + SecuredParams.describe(e, params));
    }
  }

  /** Returns the consumer; opens one if there is none or Spark has a newer delegation token. */
  private Consumer<byte[], byte[]> open() {
    if (consumer != null && params.isOutdated()) {
      close();
    }
    if (consumer == null) {
      params = new SecuredParams(kafkaSettings);
      Map<String, Object> settings = new HashMap<>(params.params());
      settings.keySet().removeAll(
          Set.of(ConsumerConfig.GROUP_ID_CONFIG, ConsumerConfig.GROUP_INSTANCE_ID_CONFIG));
      settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
      settings.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
      settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"); // Spark reports lost data
      settings.put(ConsumerConfig.FETCH_MIN_BYTES_CONFIG, 1);
      settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, MAX_POLL_RECORDS);
      settings.put(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, MAX_FETCH_BYTES);
      settings.put(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, MAX_PARTITION_BYTES);
      var deserializer = new ByteArrayDeserializer();
      consumer = new KafkaConsumer<>(settings, deserializer, deserializer);
    }
    return consumer;
  }

  private Timestamp firstTimestamp(OffsetRange range) {
    return timestampsOf(partitionOf(range)).get(range.start());
  }

  private TreeMap<Long, Timestamp> timestampsOf(TopicPartition partition) {
    return timesByPartition.computeIfAbsent(partition, p -> new TreeMap<>());
  }

  private static TopicPartition partitionOf(OffsetRange range) {
    return new TopicPartition(range.topic(), range.partition());
  }
}
