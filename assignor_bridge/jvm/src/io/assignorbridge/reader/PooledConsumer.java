package io.assignorbridge.reader;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * A Kafka consumer with the places where it stands in its partitions. Between two uses all of its
 * partitions are paused, positioned and hold what was fetched ahead. Used by one task at a time.
 */
final class PooledConsumer {
  /** How many uses a partition stays assigned without being read, once others must be added. */
  private static final int USES_TO_STAY_ASSIGNED = 16;

  /** Bytes, by the metrics of Kafka's client. */
  record Traffic(long consumedBytes, long networkBytes) {
    Traffic plus(Traffic other) {
      return new Traffic(
          consumedBytes + other.consumedBytes, networkBytes + other.networkBytes);
    }
  }

  final String stream;
  final int slot;
  long idleSinceNanos;

  private final Map<String, Object> sparkParams;
  private final SecuredParams secured;
  private final FetchDefaults defaults;
  private final long partitionBytes;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final Map<TopicPartition, Standing> standings = new HashMap<>();
  private final List<Standing> open = new ArrayList<>();
  private long uses;
  private boolean keptGrew;

  PooledConsumer(
      String stream,
      int slot,
      Map<String, Object> sparkParams,
      FetchDefaults defaults,
      int partitions) {
    this.stream = stream;
    this.slot = slot;
    this.sparkParams = sparkParams;
    this.secured = new SecuredParams(sparkParams);
    this.defaults = defaults;
    Map<String, Object> params = defaults.applyTo(secured.params(), partitions);
    this.partitionBytes =
        Long.parseLong(params.get(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG).toString());
    this.consumer = new KafkaConsumer<>(params);
    ReaderCounters.CREATED.increment();
  }

  /** How many of the ranges begin where this consumer stands. */
  int overlap(Collection<RangeCursor> ranges) {
    int count = 0;
    for (RangeCursor range : ranges) {
      Standing standing = standings.get(range.partition);
      if (standing != null && standing.covers(range.start)) {
        count++;
      }
    }
    return count;
  }

  boolean holdsAny(Collection<RangeCursor> ranges) {
    return ranges.stream().anyMatch(range -> standings.containsKey(range.partition));
  }

  /** Whether it is still what a new consumer for these parameters and ranges would be. */
  boolean fits(Map<String, Object> params, int partitions) {
    boolean sized =
        sparkParams.containsKey(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG)
            || !defaults.tooLarge(partitionBytes, Math.max(partitions, standings.size()));
    return sized && sparkParams.equals(params) && !secured.isOutdated();
  }

  /** A task begins to use the consumer. */
  void beginUse() {
    uses++;
  }

  /**
   * Begins to read ranges, of different partitions, and gives what is held of them already.
   *
   * @param ranges the ranges, with the start that they have left
   * @param out receives the kept records
   */
  void begin(List<RangeCursor> ranges, List<Chunk> out) {
    assign(ranges);
    List<TopicPartition> toPoll = new ArrayList<>();
    for (RangeCursor range : ranges) {
      Standing standing = standings.get(range.partition);
      if (!standing.covers(range.start)) {
        consumer.seek(range.partition, range.start);
        standing.resetTo(range.start);
        ReaderCounters.SEEKS.increment();
      }
      standing.lastUse = uses;
      standing.reading = range;
      deliver(standing, standing.takeKept(range.start), out);
      if (standing.reading != null && standing.position >= range.until) {
        finish(standing, List.of());
      }
      if (standing.reading != null) {
        open.add(standing);
        toPoll.add(standing.partition);
      }
    }
    consumer.resume(toPoll);
  }

  /** Whether ranges are left that need a poll. */
  boolean isReading() {
    return !open.isEmpty();
  }

  /**
   * Polls once.
   *
   * @param out receives the records, those beyond a range's end are kept
   * @return whether any range came forward
   * @throws OffsetOutOfRangeException as Kafka does; the records before are in {@code out}
   */
  boolean poll(Duration timeout, List<Chunk> out) {
    ReaderCounters.POLLS.increment();
    ConsumerRecords<byte[], byte[]> polled = consumer.poll(timeout);
    boolean forward = false;
    for (TopicPartition partition : polled.partitions()) {
      List<ConsumerRecord<byte[], byte[]>> records = polled.records(partition);
      Standing standing = standings.get(partition);
      if (standing.reading == null) { // paused partitions bring none; should one, it is read again
        standing.lose();
        continue;
      }
      standing.position = records.get(records.size() - 1).offset() + 1;
      deliver(standing, records, out);
      forward = true;
    }
    return catchUp() | forward;
  }

  /**
   * Stops reading the partitions that are out of range and gives what is left of their ranges, by
   * partition the offset that comes next. Partitions that no range is read of are only repositioned.
   */
  Map<RangeCursor, Long> giveUp(OffsetOutOfRangeException error) {
    Map<RangeCursor, Long> left = new HashMap<>();
    for (TopicPartition partition : error.offsetOutOfRangePartitions().keySet()) {
      Standing standing = standings.get(partition);
      if (standing == null) {
        continue;
      }
      if (standing.reading != null) {
        left.put(standing.reading, standing.position);
      } else if (standing.position >= 0) {
        consumer.seek(partition, standing.position); // ends a failing check of its leader epoch
      }
      abandon(standing);
    }
    pauseDone();
    return left;
  }

  /** Stops reading one range that does not come forward; as {@link #giveUp}. */
  Map.Entry<RangeCursor, Long> giveUpFirst() {
    Standing standing = open.get(0);
    Map.Entry<RangeCursor, Long> left = Map.entry(standing.reading, standing.position);
    abandon(standing);
    pauseDone();
    return left;
  }

  Traffic traffic() {
    double consumed = 0;
    double network = 0;
    for (Map.Entry<MetricName, ? extends Metric> entry : consumer.metrics().entrySet()) {
      MetricName name = entry.getKey();
      if (name.name().equals("bytes-consumed-total")
          && name.group().equals("consumer-fetch-manager-metrics")
          && !name.tags().containsKey("topic")) {
        consumed += (double) entry.getValue().metricValue();
      } else if (name.name().equals("incoming-byte-total")
          && name.group().equals("consumer-metrics")) {
        network += (double) entry.getValue().metricValue();
      }
    }
    return new Traffic((long) consumed, (long) network);
  }

  void close() {
    Traffic last = traffic();
    consumer.close(Duration.ZERO);
    ReaderCounters.CONSUMED_BYTES.add(last.consumedBytes());
    ReaderCounters.NETWORK_BYTES.add(last.networkBytes());
    ReaderCounters.CLOSED.increment();
  }

  @Override
  public String toString() {
    return "consumer of " + standings.size() + " partitions for stream " + stream + ", slot " + slot;
  }

  private void assign(List<RangeCursor> ranges) {
    boolean complete = true;
    for (RangeCursor range : ranges) {
      complete &= standings.containsKey(range.partition);
    }
    if (complete) {
      return;
    }
    standings.values().removeIf(one -> uses - one.lastUse > USES_TO_STAY_ASSIGNED);
    for (RangeCursor range : ranges) {
      standings.computeIfAbsent(range.partition, Standing::new).lastUse = uses;
    }
    consumer.assign(standings.keySet());
  }

  /** Hands over the records below the range's end; those above are kept and the range is done. */
  private void deliver(
      Standing standing, List<ConsumerRecord<byte[], byte[]>> records, List<Chunk> out) {
    if (records.isEmpty()) {
      return;
    }
    RangeCursor range = standing.reading;
    int end = Standing.firstAtOrAbove(records, range.until);
    if (end > 0) {
      out.add(new Chunk(range, end == records.size() ? records : records.subList(0, end)));
    }
    if (end < records.size()) {
      finish(standing, records.subList(end, records.size()));
    }
  }

  /** Ends ranges whose last offsets are no records (markers, aborted, compacted). */
  private boolean catchUp() {
    boolean forward = false;
    for (Standing standing : open) {
      if (standing.reading == null) {
        continue;
      }
      long position = positionOf(standing);
      if (position > standing.position) {
        standing.position = position;
        forward = true;
      }
      if (standing.position >= standing.reading.until) {
        finish(standing, List.of());
      }
    }
    pauseDone();
    return forward;
  }

  private long positionOf(Standing standing) {
    try {
      return consumer.position(standing.partition, Duration.ZERO);
    } catch (TimeoutException e) { // its leader has changed and is being asked: nothing new yet
      return standing.position;
    }
  }

  private void finish(Standing standing, List<ConsumerRecord<byte[], byte[]>> beyond) {
    standing.keep(standing.reading.until, beyond);
    standing.reading = null;
    keptGrew |= !beyond.isEmpty();
  }

  private void abandon(Standing standing) {
    standing.reading = null;
    standing.lose();
  }

  private void pauseDone() {
    List<TopicPartition> done = new ArrayList<>();
    for (Standing standing : open) {
      if (standing.reading == null) {
        done.add(standing.partition);
      }
    }
    if (!done.isEmpty()) {
      consumer.pause(done);
      open.removeIf(standing -> standing.reading == null);
    }
    if (keptGrew) {
      keptGrew = false;
      boundKept();
    }
  }

  /** Keeps within the buffer: what was not read lately goes first, then the largest. */
  private void boundKept() {
    long total = 0;
    for (Standing standing : standings.values()) {
      total += standing.keptBytes;
    }
    if (total <= defaults.bufferBytes()) {
      return;
    }
    List<Standing> holders = new ArrayList<>(standings.values());
    holders.sort(
        Comparator.<Standing>comparingLong(one -> one.lastUse)
            .thenComparingLong(one -> -one.keptBytes));
    for (Standing standing : holders) {
      if (total <= defaults.bufferBytes()) {
        return;
      }
      total -= standing.keptBytes;
      standing.dropKept();
    }
  }
}
