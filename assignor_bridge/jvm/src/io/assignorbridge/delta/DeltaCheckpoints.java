package io.assignorbridge.delta;

import io.assignorbridge.model.LatestOnlyExecutor;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the checkpoints of a table's log on a thread of its own, as if another writer of the table
 * did it. Delta writes one behind every tenth commit, and the next batch would wait for it: seconds,
 * where a batch takes one. The commit is there before, and a checkpoint that is late, or never comes,
 * only means that more of the log is read.
 */
final class DeltaCheckpoints {
  private static final Logger LOG = LoggerFactory.getLogger(DeltaCheckpoints.class);
  private static final long FINISH_LIMIT_MS = 600_000; // Delta would wait without a limit
  private static final String DESCRIPTION = "checkpoint of a Delta table's log, beside the batches";

  private final LatestOnlyExecutor<Runnable> newest =
      new LatestOnlyExecutor<>("assignor-bridge-delta-checkpoints", Runnable::run);
  private volatile boolean canWrite = true;

  /** The one that was asked for last; null once it is written, or has failed. */
  private volatile Runnable asked;

  private final AtomicBoolean hasEnded = new AtomicBoolean();

  /** False where Delta has another shape: it shall write them itself then. */
  boolean canWrite() {
    return canWrite;
  }

  /** Whether one has ended since this was asked last, or none is being written. */
  boolean mayBeThere() {
    return hasEnded.getAndSet(false) || asked == null;
  }

  /** Writes it soon, unless a newer one is asked for before. */
  void write(Runnable checkpoint) {
    SparkSession session = SparkSession.active();
    asked = checkpoint;
    newest.submit(
        () -> {
          try {
            SparkContext context = session.sparkContext();
            context.clearJobGroup(); // else it is the query's, and would be cancelled with it
            context.setJobDescription(DESCRIPTION);
            SparkSession.setActiveSession(session);
            checkpoint.run();
          } catch (LinkageError e) {
            canWrite = false;
            LOG.warn("checkpoints of a Delta table's log hold up batches with this Delta", e);
          } catch (Exception e) {
            LOG.warn("a checkpoint of a Delta table's log was not written", e);
          } finally {
            hasEnded.set(true);
            if (asked == checkpoint) {
              asked = null;
            }
          }
        });
  }

  /** Waits for what is being written; then there is no more. */
  void finish() {
    newest.finish(FINISH_LIMIT_MS);
  }
}
