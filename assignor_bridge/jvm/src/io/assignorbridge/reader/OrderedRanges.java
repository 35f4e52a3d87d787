package io.assignorbridge.reader;

import io.assignorbridge.reader.RangeCursor.Chunk;
import io.assignorbridge.reader.RangeCursor.State;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * A task's ranges in plan order, the order in which Spark gets their rows. Spark relies on each
 * attempt of a task to return the same rows in the same order. Records of a later range that arrive
 * early are therefore held until that range's turn.
 */
final class OrderedRanges {
  private final ArrayDeque<RangeCursor> remainingRanges = new ArrayDeque<>();
  private long heldBytes;

  void add(RangeCursor range) {
    remainingRanges.add(range);
  }

  /** Returns the range whose turn it is, or null after the last one. */
  RangeCursor first() {
    return remainingRanges.peek();
  }

  void removeFirst() {
    remainingRanges.remove();
    if (!remainingRanges.isEmpty()) {
      heldBytes -= first().heldBytes;
      first().heldBytes = 0;
    }
  }

  /** Returns the heap bytes of records that were received before their turn. */
  long heldBytes() {
    return heldBytes;
  }

  void addRecords(List<Chunk> receivedChunks) {
    for (Chunk chunk : receivedChunks) {
      RangeCursor range = chunk.cursor();
      range.chunks.add(chunk);
      if (range != first()) {
        long heapBytes = PartitionPosition.estimateHeapBytes(chunk.records());
        range.heldBytes += heapBytes;
        heldBytes += heapBytes;
      }
    }
  }

  /** Marks the first unfinished range of each partition as READING; returns those newly marked. */
  List<RangeCursor> begin() {
    Set<TopicPartition> partitions = new HashSet<>();
    List<RangeCursor> begunRanges = new ArrayList<>();
    for (RangeCursor range : remainingRanges) {
      boolean isUnfinished = range.state == State.PENDING || range.state == State.READING;
      if (isUnfinished && partitions.add(range.partition) && range.state == State.PENDING) {
        range.state = State.READING;
        begunRanges.add(range);
      }
    }
    return begunRanges;
  }

  /**
   * Hands all unfinished ranges over to Spark's reader and drops the records received for them.
   *
   * @param begunRanges ranges that have begun, but whose records could not be received
   * @return number of ranges handed over
   */
  int handOverAll(List<RangeCursor> begunRanges) {
    Set<RangeCursor> failedRanges = new HashSet<>(begunRanges);
    int count = 0;
    for (RangeCursor range : remainingRanges) {
      if (failedRanges.contains(range) || range.state == State.PENDING || range.state == State.READING) {
        heldBytes -= range.heldBytes;
        range.heldBytes = 0;
        range.chunks.clear();
        range.handOver(range.start);
        count++;
      }
    }
    return count;
  }
}
