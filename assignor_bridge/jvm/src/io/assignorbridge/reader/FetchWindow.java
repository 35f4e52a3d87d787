package io.assignorbridge.reader;

import java.util.Iterator;
import java.util.Collection;

/**
 * Which partitions are fetched: those whose records come next in the order of the plan. A range is
 * fetched if it begins within the next {@code bufferBytes} of the task's records, by the expected
 * size of its predecessors. The first range is always fetched.
 */
final class FetchWindow {
  private static final double UNKNOWN_BYTES_PER_OFFSET = 1024; // a guess, before the first poll

  private final long bufferBytes;
  private double typicalBytesPerOffset = UNKNOWN_BYTES_PER_OFFSET;

  FetchWindow(long bufferBytes) {
    this.bufferBytes = bufferBytes;
  }

  /** Learns what an offset takes in partitions that were not polled yet. */
  void learn(PartitionPosition polled) {
    typicalBytesPerOffset = (typicalBytesPerOffset + polled.bytesPerOffset) / 2;
  }

  /** Heap that the offsets take that are still to be received of a partition's range. */
  long expectedBytes(PartitionPosition one) {
    double perOffset = one.bytesPerOffset > 0 ? one.bytesPerOffset : typicalBytesPerOffset;
    return (long) ((one.reading.until - one.position) * perOffset);
  }

  /**
   * Counts the partitions to fetch.
   *
   * @param unread partitions with an unfinished range, in the order of the plan
   * @param heldBytes heap of records that were received before their turn
   * @param limit the most partitions that may be fetched at a time
   */
  int size(Collection<PartitionPosition> unread, long heldBytes, int limit) {
    int count = 0;
    long bytesBefore = heldBytes;
    Iterator<PartitionPosition> next = unread.iterator();
    while (next.hasNext() && (count == 0 || bytesBefore < bufferBytes && count < limit)) {
      bytesBefore += expectedBytes(next.next());
      count++;
    }
    return count;
  }
}
