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
 * The ranges of a task in the order of its plan, in which their rows are given to Spark. Spark relies
 * on it that each attempt at a task gives the same rows in the same order, so records of a later
 * range that arrive early are held until its turn.
 */
final class OrderedRanges {
  private final ArrayDeque<RangeCursor> remaining = new ArrayDeque<>();
  private long heldBytes;

  /** Appends the next range of the plan. */
  void add(RangeCursor range) {
    remaining.add(range);
  }

  /** The range whose turn it is; null after the last one. */
  RangeCursor first() {
    return remaining.peek();
  }

  /** Removes the first range: it is the next one's turn. */
  void removeFirst() {
    remaining.remove();
    if (!remaining.isEmpty()) {
      heldBytes -= first().heldBytes;
      first().heldBytes = 0;
    }
  }

  /** Heap of the records that were received before their turn. */
  long heldBytes() {
    return heldBytes;
  }

  /** Adds received records to their ranges. */
  void hold(List<Chunk> received) {
    for (Chunk chunk : received) {
      RangeCursor range = chunk.cursor();
      range.chunks.add(chunk);
      if (range != first()) {
        long bytes = PartitionPosition.heapBytes(chunk.records());
        range.heldBytes += bytes;
        heldBytes += bytes;
      }
    }
  }

  /** Begins the ranges that can be read now, which are one of a partition at a time. */
  List<RangeCursor> begin() {
    Set<TopicPartition> partitions = new HashSet<>();
    List<RangeCursor> begun = new ArrayList<>();
    for (RangeCursor range : remaining) {
      boolean unfinished = range.state == State.PENDING || range.state == State.READING;
      if (unfinished && partitions.add(range.partition) && range.state == State.PENDING) {
        range.state = State.READING;
        begun.add(range);
      }
    }
    return begun;
  }

  /**
   * Leaves unfinished ranges to Spark's reader, with what was received of them.
   *
   * @param begun ranges whose records could not be received
   * @return number of ranges
   */
  int handOverAll(List<RangeCursor> begun) {
    Set<RangeCursor> lost = new HashSet<>(begun);
    int count = 0;
    for (RangeCursor range : remaining) {
      if (lost.contains(range) || range.state == State.PENDING || range.state == State.READING) {
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
