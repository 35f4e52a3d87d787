package io.assignorbridge.reader;

import java.util.Iterator;
import java.util.Collection;

/**
 * Chooses how many partitions to fetch, in plan order: the first one, and those whose range is
 * expected to begin within the next {@code bufferBytes} of the task's records.
 */
final class FetchWindow {
  private static final double DEFAULT_BYTES_PER_OFFSET = 1024; // before the first poll

  private final long bufferBytes;
  private double typicalBytesPerOffset = DEFAULT_BYTES_PER_OFFSET;

  FetchWindow(long bufferBytes) {
    this.bufferBytes = bufferBytes;
  }

  /** Updates the expected bytes per offset of partitions that have not been polled yet. */
  void updateTypicalBytes(PartitionPosition polledPosition) {
    typicalBytesPerOffset = (typicalBytesPerOffset + polledPosition.bytesPerOffset) / 2;
  }

  /** Estimates the heap bytes of the records that are still missing in a partition's range. */
  long estimateBytes(PartitionPosition p) {
    double bytesPerOffset = p.bytesPerOffset > 0 ? p.bytesPerOffset : typicalBytesPerOffset;
    return (long) ((p.currentRange.end - p.position) * bytesPerOffset);
  }

  /**
   * Returns how many partitions to fetch at a time, from the first one on.
   * @param unreadPartitions partitions with an unfinished range, in plan order
   * @param heldBytes heap bytes of records that were received before their turn
   * @param maxPartitions maximum number of partitions to fetch at a time
   */
  int countPartitions(Collection<PartitionPosition> unreadPartitions, long heldBytes, int maxPartitions) {
    int count = 0;
    long bytesBefore = heldBytes;
    Iterator<PartitionPosition> iterator = unreadPartitions.iterator();
    while (iterator.hasNext() && (count == 0 || bytesBefore < bufferBytes && count < maxPartitions)) {
      bytesBefore += estimateBytes(iterator.next());
      count++;
    }
    return count;
  }
}
