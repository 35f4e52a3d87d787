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
 * Kafka's timestamps of the records at which reading goes on, where the planner needs them. After a
 * batch that was read they cost nothing: readers report the newest record of each range, and the next
 * one is as new where records are in order. Where nothing is known of an offset (the first batch, a
 * new partition, a range that nobody reported) one consumer reads the record there. Used on the
 * stream's thread, without a group.
 */
public final class RecordTimes implements AutoCloseable {
  /** Kafka's failure: the planner was not asked meanwhile, and is as it was. */
  public static final class NoTimesException extends PlannerException {
    private static final long serialVersionUID = 1L;

    NoTimesException(String message) {
      super(message);
    }
  }

  private static final Logger LOG = LoggerFactory.getLogger(RecordTimes.class);
  private static final int FETCH_BYTES = 8 * 1024 * 1024;
  private static final int PARTITION_BYTES = 64 * 1024; // most first batches fit
  private static final int POLL_RECORDS = 1_000_000; // all partitions of a response at once
  private static final long POLL_MS = 100;
  private static final long NONE = -1;

  private final Map<String, Object> kafka;

  /** A timestamp; of the record itself, or only of the newest that was read before it. */
  private record Stamp(long millis, boolean isOfRecord) {}

  /** By partition and offset, from where reading goes on; those that were passed are dropped. */
  private final Map<TopicPartition, TreeMap<Long, Stamp>> stamps = new HashMap<>();

  private Consumer<byte[], byte[]> consumer; // null until it is needed, and after a failure
  private SecuredParams params; // of the consumer

  /** `kafka` holds the stream's own settings of its Kafka client, without the prefix. */
  public RecordTimes(Map<String, String> kafka) {
    this.kafka = new HashMap<>(kafka);
  }

  /** Forgets partitions that the stream has no more. */
  public void keep(Set<TopicPartition> live) {
    if (stamps.size() > live.size()) {
      stamps.keySet().retainAll(live);
    }
  }

  /** Takes in what finished readers sent. */
  public void read(List<ReadReport> reports) {
    for (ReadReport r : reports) {
      if (r.oldest() <= r.newest()) {
        of(new TopicPartition(r.topic(), r.partition()))
            .putIfAbsent(r.until(), new Stamp(r.newest(), false));
      }
    }
  }

  /** The timestamp of the first record of each range; -1 where there is none, or it has no time. */
  public Columns.Times of(List<OffsetRange> waiting, long timeoutMs)
      throws PlannerException, InterruptedException {
    long now = System.currentTimeMillis();
    Map<TopicPartition, OffsetRange> unknown = new HashMap<>();
    for (OffsetRange range : waiting) {
      TreeMap<Long, Stamp> known = of(partition(range));
      known.headMap(range.start()).clear();
      if (!known.containsKey(range.start())) {
        unknown.put(partition(range), range);
      }
    }
    if (!unknown.isEmpty()) {
      ask(
          kafka -> {
            peek(kafka, unknown, timeoutMs);
            return null;
          });
    }
    return Columns.Times.of(now, waiting, range -> first(range).millis());
  }

  /** The same, and the offset of the first record at or after a time: the look-up of this number. */
  public Columns.Times lookUp(
      int number, long millis, List<OffsetRange> waiting, long timeoutMs)
      throws PlannerException, InterruptedException {
    Map<TopicPartition, Long> asked =
        waiting.stream().collect(Collectors.toMap(RecordTimes::partition, range -> millis));
    Map<TopicPartition, OffsetAndTimestamp> found =
        ask(kafka -> kafka.offsetsForTimes(asked, Duration.ofMillis(timeoutMs)));
    boolean afterPause = false;
    for (OffsetRange range : waiting) {
      OffsetAndTimestamp first = found.get(partition(range));
      if (first != null && first.offset() >= range.start()) {
        TreeMap<Long, Stamp> known = of(partition(range));
        known.tailMap(range.start(), false).clear(); // answers to earlier times
        known.put(first.offset(), new Stamp(first.timestamp(), true));
        afterPause |= first.offset() == range.start();
      }
    }
    if (afterPause) { // others may be later than thought, too: of the oldest, the record is read
      long oldest =
          waiting.stream()
              .map(this::first)
              .filter(stamp -> stamp.isOfRecord && stamp.millis >= 0)
              .mapToLong(Stamp::millis)
              .min()
              .orElse(Long.MAX_VALUE);
      for (OffsetRange range : waiting) {
        if (!first(range).isOfRecord && first(range).millis < oldest) {
          of(partition(range)).remove(range.start());
        }
      }
    }
    return of(waiting, timeoutMs)
        .with(
            number,
            millis,
            waiting,
            range -> {
              OffsetAndTimestamp first = found.get(partition(range));
              return first == null ? NONE : first.offset();
            });
  }

  @Override
  public void close() {
    Consumer<byte[], byte[]> open = consumer;
    consumer = null;
    if (open != null) {
      try {
        open.close(Duration.ofMillis(1));
      } catch (KafkaException e) { // an interrupt stays set
        LOG.debug("a consumer was not closed well", e);
      }
    }
  }

  /** Reads the first record of each range. */
  private void peek(
      Consumer<byte[], byte[]> kafka,
      Map<TopicPartition, OffsetRange> ranges,
      long timeoutMs) {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    Map<TopicPartition, OffsetRange> left = new HashMap<>(ranges);
    kafka.assign(left.keySet());
    left.forEach((partition, range) -> kafka.seek(partition, range.start()));
    while (!left.isEmpty()) {
      long restMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
      if (restMs < 1) {
        throw new TimeoutException(
            "no first record of " + left.size() + " partitions within " + timeoutMs + " ms");
      }
      var records = kafka.poll(Duration.ofMillis(Math.min(POLL_MS, restMs)));
      for (TopicPartition partition : records.partitions()) {
        ConsumerRecord<byte[], byte[]> first = records.records(partition).get(0);
        OffsetRange range = ranges.get(partition);
        long millis = first.offset() < range.end() ? first.timestamp() : NONE;
        of(partition).put(range.start(), new Stamp(millis, true));
      }
      kafka.pause(records.partitions());
      left.keySet().removeAll(records.partitions());
      if (records.isEmpty()) {
        var rest = Duration.ofMillis(restMs);
        left.values().removeIf(range -> isWithoutRecords(kafka, range, rest));
      }
    }
    kafka.unsubscribe();
  }

  /** Whether the consumer came past the range and gave no record: gaps, marks of transactions. */
  private boolean isWithoutRecords(
      Consumer<byte[], byte[]> kafka, OffsetRange range, Duration limit) {
    if (kafka.position(partition(range), limit) < range.end()) {
      return false;
    }
    of(partition(range)).put(range.start(), new Stamp(NONE, true));
    return true;
  }

  private <T> T ask(Function<Consumer<byte[], byte[]>, T> question)
      throws PlannerException, InterruptedException {
    try {
      return question.apply(open());
    } catch (InterruptException e) { // the query is stopped: Spark expects its own kind
      Thread.interrupted();
      close();
      throw new InterruptedException();
    } catch (KafkaException e) {
      close();
      throw new NoTimesException(
          "Kafka did not tell the times of records: " + SecuredParams.describe(e, params));
    }
  }

  /** The consumer; another one when Spark has renewed its delegation token. */
  private Consumer<byte[], byte[]> open() {
    if (consumer != null && params.isOutdated()) {
      close();
    }
    if (consumer == null) {
      params = new SecuredParams(kafka);
      Map<String, Object> settings = new HashMap<>(params.params());
      settings.keySet().removeAll(
          Set.of(ConsumerConfig.GROUP_ID_CONFIG, ConsumerConfig.GROUP_INSTANCE_ID_CONFIG));
      settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
      settings.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
      settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"); // what is lost, Spark says
      settings.put(ConsumerConfig.FETCH_MIN_BYTES_CONFIG, 1);
      settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, POLL_RECORDS);
      settings.put(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, FETCH_BYTES);
      settings.put(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, PARTITION_BYTES);
      var bytes = new ByteArrayDeserializer();
      consumer = new KafkaConsumer<>(settings, bytes, bytes);
    }
    return consumer;
  }

  private Stamp first(OffsetRange range) {
    return of(partition(range)).get(range.start());
  }

  private TreeMap<Long, Stamp> of(TopicPartition partition) {
    return stamps.computeIfAbsent(partition, added -> new TreeMap<>());
  }

  private static TopicPartition partition(OffsetRange range) {
    return new TopicPartition(range.topic(), range.partition());
  }
}
