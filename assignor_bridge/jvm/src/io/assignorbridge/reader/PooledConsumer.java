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
 * A consumer and its positions, used by one task at a time. Between two uses, all partitions are
 * paused, and the positions and the records fetched ahead are kept.
 */
final class PooledConsumer {
  /** Uses after which an unread partition is dropped, because it may have left the stream. */
  private static final int MAX_UNREAD_USES = 16;

  final String stream;
  final int slot;
  long idleSinceNanos; // System.nanoTime() when the consumer became idle
  long idleBytes; // bytes that it held then

  private final Map<String, Object> sparkParams;
  private final SecuredParams securedParams;
  private final long bufferBytes;
  private final BoundedConsumer consumer;
  private final Map<TopicPartition, PartitionPosition> positionByPartition = new HashMap<>();
  private long useCount;

  PooledConsumer(
      String stream,
      int slot,
      Map<String, Object> sparkParams,
      long bufferBytes,
      int partitionCount,
      Function<Map<String, Object>, Consumer<byte[], byte[]>> clientFactory) {
    this.stream = stream;
    this.slot = slot;
    this.sparkParams = sparkParams;
    this.securedParams = new SecuredParams(sparkParams);
    this.bufferBytes = bufferBytes;
    this.consumer = new BoundedConsumer(securedParams.params(), bufferBytes, partitionCount, clientFactory);
  }

  /** Counts the ranges whose start is covered by this consumer's positions. */
  int countCoveredStarts(Collection<RangeCursor> ranges) {
    int count = 0;
    for (RangeCursor range : ranges) {
      PartitionPosition position = positionByPartition.get(range.partition);
      if (position != null && position.covers(range.start)) {
        count++;
      }
    }
    return count;
  }

  boolean hasAnyPosition(Collection<RangeCursor> ranges) {
    return ranges.stream().anyMatch(range -> positionByPartition.containsKey(range.partition));
  }

  /** Returns whether a new consumer would have the same parameters. */
  boolean hasParams(Map<String, Object> params) {
    return sparkParams.equals(params) && !securedParams.isOutdated();
  }

  /** Starts another use, and drops partitions that were not read for a while. */
  void beginUse() {
    useCount++;
    if (useCount % MAX_UNREAD_USES == 0) {
      Predicate<PartitionPosition> isUnused = p -> useCount - p.lastUse > MAX_UNREAD_USES;
      consumer.drop(positionByPartition.values().stream().filter(isUnused).toList());
      positionByPartition.values().removeIf(isUnused);
    }
  }

  /**
   * Starts to read ranges of different partitions, and adds their kept records to {@code chunks}.
   *
   * @param heldBytes heap bytes of records that were received before their turn
   */
  void begin(List<RangeCursor> ranges, long heldBytes, List<Chunk> chunks) {
    List<PartitionPosition> unfinishedPositions = new ArrayList<>();
    for (RangeCursor range : ranges) {
      PartitionPosition p =
          positionByPartition.computeIfAbsent(range.partition, PartitionPosition::new);
      if (!p.covers(range.start)) {
        p.resetTo(range.start);
        range.waitsCold = true;
      }
      p.lastUse = useCount;
      p.currentRange = range;
      deliver(p, p.takeKept(range.start), chunks);
      finishAtEnd(p);
      if (p.currentRange != null) {
        unfinishedPositions.add(p);
      }
    }
    consumer.begin(unfinishedPositions, heldBytes);
  }

  /** Returns whether a range is unfinished and needs a poll. */
  boolean isReading() {
    return !consumer.unreadPartitions().isEmpty();
  }

  /**
   * Polls once, adds the records within ranges to {@code chunks}, and keeps records beyond them. The
   * caller then calls {@link #fitBuffers}, when it knows which records wait for their turn.
   *
   * @param heldBytes heap bytes of records that were received before their turn
   * @return whether the first unfinished range made progress
   * @throws org.apache.kafka.clients.consumer.OffsetOutOfRangeException if offsets are gone
   */
  boolean poll(Duration timeout, long heldBytes, List<Chunk> chunks) {
    consumer.fitWindow(heldBytes);
    PartitionPosition firstPosition = consumer.unreadPartitions().get(0);
    long positionBefore = firstPosition.position;
    ConsumerRecords<byte[], byte[]> polledRecords = consumer.poll(timeout);
    for (TopicPartition partition : polledRecords.partitions()) {
      List<ConsumerRecord<byte[], byte[]>> records = polledRecords.records(partition);
      PartitionPosition p = positionByPartition.get(partition);
      if (p.currentRange == null) { // a paused partition: drop its records, seek for its next range
        p.forget();
        continue;
      }
      consumer.addPolledBytes(p, p.movePast(records));
      deliver(p, records, chunks);
    }
    for (PartitionPosition p : consumer.fetchedPartitions()) { // a range may end without records
      if (p.currentRange != null) {
        long offset = consumer.offsetOf(p);
        if (offset > p.position) {
          p.moveTo(offset);
        }
        finishAtEnd(p);
      }
    }
    return firstPosition.position > positionBefore;
  }

  /**
   * Chooses the partitions to fetch next, and limits the records in memory to the buffer size: kept
   * records are dropped, first those of the least recently read partitions.
   *
   * @param heldBytes heap bytes of records that were received before their turn
   */
  void fitBuffers(long heldBytes) {
    long totalBytes = consumer.pauseFinished(heldBytes) || heldBytes > 0 ? heldBytes + keptBytes() : 0;
    if (totalBytes > bufferBytes) {
      List<PartitionPosition> sortedPositions = new ArrayList<>(positionByPartition.values());
      sortedPositions.sort(
          Comparator.<PartitionPosition>comparingLong(p -> p.lastUse)
              .thenComparingLong(p -> -p.keptBytes));
      for (int i = 0; totalBytes > bufferBytes && i < sortedPositions.size(); i++) {
        totalBytes -= sortedPositions.get(i).keptBytes;
        sortedPositions.get(i).dropKept();
      }
    }
    consumer.fitFetchSize(heldBytes);
  }

  /** Hands partitions over to Spark's reader; returns their unfinished ranges. */
  List<RangeCursor> handOver(Collection<TopicPartition> partitions) {
    List<RangeCursor> unfinishedRanges = new ArrayList<>();
    for (TopicPartition partition : partitions) {
      PartitionPosition p = positionByPartition.get(partition);
      if (p == null) {
        continue;
      }
      consumer.seekAgain(p);
      if (p.currentRange != null) {
        p.currentRange.handOver(p.position);
        unfinishedRanges.add(p.currentRange);
        p.currentRange = null;
      }
      p.forget();
    }
    return unfinishedRanges;
  }

  /** Marks the consumer as idle after a successful task; keeps its records. */
  void becomeIdle() {
    idleSinceNanos = System.nanoTime();
    idleBytes = keptBytes() + consumer.pausedBytes();
  }

  /** Drops all records of an idle consumer; keeps its connections and positions. */
  void release() {
    positionByPartition.values().forEach(PartitionPosition::dropKept);
    consumer.drop(positionByPartition.values());
    idleBytes = 0;
  }

  Map<Integer, Long> takeReceivedBytes() {
    return consumer.takeReceivedBytes();
  }

  void close() {
    consumer.close();
  }

  @Override
  public String toString() {
    int count = positionByPartition.size();
    return "consumer for stream " + stream + ", slot " + slot + ", positions: " + count;
  }

  /** Adds the records within the range to `chunks`; keeps later records, which finish the range. */
  private static void deliver(
      PartitionPosition p, List<ConsumerRecord<byte[], byte[]>> records, List<Chunk> chunks) {
    int count = PartitionPosition.countBelow(records, p.currentRange.end);
    if (count == records.size()) {
      if (count > 0) {
        chunks.add(new Chunk(p.currentRange, records));
      }
      return;
    }
    if (count > 0) { // a copy: a view would keep the records beyond the end in memory
      chunks.add(new Chunk(p.currentRange, List.copyOf(records.subList(0, count))));
    }
    finish(p, records.subList(count, records.size()));
  }

  private static void finishAtEnd(PartitionPosition p) {
    if (p.currentRange != null && p.position >= p.currentRange.end) {
      finish(p, List.of());
    }
  }

  private static void finish(
      PartitionPosition p, List<ConsumerRecord<byte[], byte[]>> laterRecords) {
    p.keep(p.currentRange.end, laterRecords);
    p.currentRange.state = State.RECEIVED;
    p.currentRange = null;
  }

  private long keptBytes() {
    return positionByPartition.values().stream().mapToLong(p -> p.keptBytes).sum();
  }
}
