package io.assignorbridge.reader;

import io.assignorbridge.reader.RangeCursor.Chunk;
import java.util.List;

/**
 * Measures the time for each range's records, including Spark's work between two calls of the
 * reader. The clock is read once per chunk, never per record.
 */
final class ReadTimes {
  private RangeCursor chargedRange; // null while the time belongs to no range
  private long lastNanos = System.nanoTime();

  /** Charges {@code range} with the time from now on; null if the time belongs to no range yet. */
  void charge(RangeCursor range) {
    long nowNanos = System.nanoTime();
    if (chargedRange != null) {
      chargedRange.nanos += nowNanos - lastNanos;
    }
    chargedRange = range;
    lastNanos = nowNanos;
  }

  /**
   * Splits the uncharged time over the polled chunks by records; keeps it if there are none. If a
   * range waits cold, its share is also its cold wait, because its first records have arrived.
   */
  void splitByRecords(List<Chunk> polledChunks) {
    long nowNanos = System.nanoTime();
    long totalRecords = polledChunks.stream().mapToLong(chunk -> chunk.records().size()).sum();
    if (totalRecords > 0) {
      double nanosPerRecord = (nowNanos - lastNanos) / (double) totalRecords;
      for (Chunk chunk : polledChunks) {
        long shareNanos = (long) (nanosPerRecord * chunk.records().size());
        RangeCursor cursor = chunk.cursor();
        cursor.nanos += shareNanos;
        if (cursor.waitsCold) {
          cursor.coldNanos = shareNanos;
          cursor.waitsCold = false;
        }
      }
      lastNanos = nowNanos;
    }
  }
}
