package io.assignorbridge.reader;

/**
 * Says which range the time goes to. The clock is read when a chunk begins and ends and around a
 * poll, never per record. What Spark does with a record between two calls of the reader counts for
 * the range of that record; the wait for a poll is shared by the ranges it brought records of.
 */
final class ReadMeter {
  private RangeCursor charged;
  private long markNanos = System.nanoTime();

  /** From now on time counts for {@code cursor}; null when it is nobody's yet. */
  void charge(RangeCursor cursor) {
    long now = System.nanoTime();
    if (charged != null) {
      charged.nanos += now - markNanos;
    }
    charged = cursor;
    markNanos = now;
  }

  /** Shares the time since {@link #charge charge(null)} over chunks, by their records. */
  void share(Iterable<Chunk> chunks) {
    long now = System.nanoTime();
    long total = 0;
    for (Chunk chunk : chunks) {
      total += chunk.records().size();
    }
    if (total > 0) {
      double nanosPerRecord = (now - markNanos) / (double) total;
      for (Chunk chunk : chunks) {
        chunk.cursor().nanos += (long) (nanosPerRecord * chunk.records().size());
      }
      markNanos = now;
    }
  }
}
