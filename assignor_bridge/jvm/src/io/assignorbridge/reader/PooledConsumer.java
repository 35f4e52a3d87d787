package io.assignorbridge.reader;

import io.assignorbridge.kafka.SecuredParams;
import io.assignorbridge.reader.RangeCursor.Chunk;
import io.assignorbridge.reader.RangeCursor.State;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;

/**
 * A consumer with its positions. Between two uses all of its partitions are paused, positioned and
 * hold what was fetched ahead. Used by one task at a time.
 */
final class PooledConsumer {
  /** After so many uses a partition that was not read is forgotten: it may have left the stream. */
  private static final int USES_TO_REMEMBER = 16;

  final String stream;
  final int slot;

  /** When and with how many bytes it became idle. */
  long idleSinceNanos;

  long idleBytes;

  private final Map<String, Object> sparkParams;
  private final SecuredParams secured;
  private final long bufferBytes;
  private final BoundedConsumer consumer;
  private final Map<TopicPartition, PartitionPosition> positions = new HashMap<>();
  private long uses;

  PooledConsumer(
      String stream,
      int slot,
      Map<String, Object> sparkParams,
      long bufferBytes,
      int partitions,
      Function<Map<String, Object>, Consumer<byte[], byte[]>> maker) {
    this.stream = stream;
    this.slot = slot;
    this.sparkParams = sparkParams;
    this.secured = new SecuredParams(sparkParams);
    this.bufferBytes = bufferBytes;
    this.consumer = new BoundedConsumer(secured.params(), bufferBytes, partitions, maker);
  }

  /** How many of the ranges begin where this consumer stands. */
  int overlap(Collection<RangeCursor> ranges) {
    int count = 0;
    for (RangeCursor range : ranges) {
      PartitionPosition position = positions.get(range.partition);
      if (position != null && position.covers(range.start)) {
        count++;
      }
    }
    return count;
  }

  boolean holdsAny(Collection<RangeCursor> ranges) {
    return ranges.stream().anyMatch(range -> positions.containsKey(range.partition));
  }

  /** Whether a new consumer would have the same parameters. */
  boolean fits(Map<String, Object> params) {
    return sparkParams.equals(params) && !secured.isOutdated();
  }

  /** A task begins to use the consumer. */
  void beginUse() {
    uses++;
    if (uses % USES_TO_REMEMBER == 0) {
      Predicate<PartitionPosition> unread = one -> uses - one.lastUse > USES_TO_REMEMBER;
      consumer.drop(positions.values().stream().filter(unread).toList());
      positions.values().removeIf(unread);
    }
  }

  /**
   * Begins to read ranges of different partitions; {@code out} receives the kept records of them.
   *
   * @param heldBytes heap of records that were received before their turn
   */
  void begin(List<RangeCursor> ranges, long heldBytes, List<Chunk> out) {
    List<PartitionPosition> left = new ArrayList<>();
    for (RangeCursor range : ranges) {
      PartitionPosition one = positions.computeIfAbsent(range.partition, PartitionPosition::new);
      if (!one.covers(range.start)) {
        one.resetTo(range.start);
      }
      one.lastUse = uses;
      one.reading = range;
      deliver(one, one.takeKept(range.start), out);
      finishAtEnd(one);
      if (one.reading != null) {
        left.add(one);
      }
    }
    consumer.begin(left, heldBytes);
  }

  /** Whether a range is unfinished and needs a poll. */
  boolean isReading() {
    return !consumer.unread().isEmpty();
  }

  /**
   * Polls once; {@code out} receives the records, those beyond a range's end are kept. The caller
   * calls {@link #fitBuffers} when it knows which of the records wait for their turn.
   *
   * @param heldBytes heap of records that were received before their turn
   * @return whether the first unfinished range made progress
   * @throws org.apache.kafka.clients.consumer.OffsetOutOfRangeException as Kafka does
   */
  boolean poll(Duration timeout, long heldBytes, List<Chunk> out) {
    consumer.fitWindow(heldBytes);
    PartitionPosition first = consumer.unread().get(0);
    long before = first.position;
    ConsumerRecords<byte[], byte[]> polled = consumer.poll(timeout);
    for (TopicPartition partition : polled.partitions()) {
      List<ConsumerRecord<byte[], byte[]>> records = polled.records(partition);
      PartitionPosition one = positions.get(partition);
      if (one.reading == null) { // paused partitions bring none; should one, it is read again
        one.lose();
        continue;
      }
      consumer.learn(one, one.moveBehind(records));
      deliver(one, records, out);
    }
    for (PartitionPosition one : consumer.fetched()) { // a range's last offsets may be no records
      if (one.reading != null) {
        long offset = consumer.offsetOf(one);
        if (offset > one.position) {
          one.moveTo(offset);
        }
        finishAtEnd(one);
      }
    }
    return first.position > before;
  }

  /**
   * Chooses what is fetched next and keeps all records in memory within the buffer: those of
   * partitions that were not read lately are dropped first.
   *
   * @param heldBytes heap of records that were received before their turn
   */
  void fitBuffers(long heldBytes) {
    long total = consumer.park(heldBytes) || heldBytes > 0 ? heldBytes + keptBytes() : 0;
    if (total > bufferBytes) {
      List<PartitionPosition> holders = new ArrayList<>(positions.values());
      holders.sort(
          Comparator.<PartitionPosition>comparingLong(one -> one.lastUse)
              .thenComparingLong(one -> -one.keptBytes));
      for (int i = 0; total > bufferBytes && i < holders.size(); i++) {
        total -= holders.get(i).keptBytes;
        holders.get(i).dropKept();
      }
    }
    consumer.fitFetches(heldBytes);
  }

  /** Stops reading partitions and forgets their positions; returns their unfinished ranges. */
  List<RangeCursor> giveUp(Collection<TopicPartition> partitions) {
    List<RangeCursor> left = new ArrayList<>();
    for (TopicPartition partition : partitions) {
      PartitionPosition one = positions.get(partition);
      if (one == null) {
        continue;
      }
      consumer.seekAgain(one);
      if (one.reading != null) {
        one.reading.handOver(one.position);
        left.add(one.reading);
        one.reading = null;
      }
      one.lose();
    }
    return left;
  }

  /** The task has ended well: what is held now stays held. */
  void becomeIdle() {
    idleSinceNanos = System.nanoTime();
    idleBytes = keptBytes() + consumer.parkedBytes();
  }

  /** Gives all records back that an idle consumer holds, its connections and positions stay. */
  void release() {
    positions.values().forEach(PartitionPosition::dropKept);
    consumer.drop(positions.values());
    idleBytes = 0;
  }

  /** Bytes that came over the network since the last call, by id of broker. */
  Map<Integer, Long> takeReceived() {
    return consumer.takeReceived();
  }

  void close() {
    consumer.close();
  }

  @Override
  public String toString() {
    return "consumer of " + positions.size() + " partitions for stream " + stream + ", slot " + slot;
  }

  /** Delivers the records below the range's end; those above are kept and the range is done. */
  private static void deliver(
      PartitionPosition one, List<ConsumerRecord<byte[], byte[]>> records, List<Chunk> out) {
    int end = PartitionPosition.countBelow(records, one.reading.until);
    if (end == records.size()) {
      if (end > 0) {
        out.add(new Chunk(one.reading, records));
      }
      return;
    }
    if (end > 0) { // a copy: a view would keep the records beyond the end in memory
      out.add(new Chunk(one.reading, List.copyOf(records.subList(0, end))));
    }
    finish(one, records.subList(end, records.size()));
  }

  private static void finishAtEnd(PartitionPosition one) {
    if (one.reading != null && one.position >= one.reading.until) {
      finish(one, List.of());
    }
  }

  private static void finish(
      PartitionPosition one, List<ConsumerRecord<byte[], byte[]>> beyondTheEnd) {
    one.keep(one.reading.until, beyondTheEnd);
    one.reading.state = State.RECEIVED;
    one.reading = null;
  }

  private long keptBytes() {
    return positions.values().stream().mapToLong(one -> one.keptBytes).sum();
  }
}
