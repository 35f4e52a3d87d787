package io.assignorbridge.delta;

import io.assignorbridge.model.LatestOnlyExecutor;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the checkpoints of a table's log on a separate thread; Delta lets any writer of the table
 * do so. Delta itself writes one after every tenth commit, by default, and the next batch waits
 * seconds for it. If a checkpoint is late or missing, Delta only reads more of the log.
 */
final class DeltaCheckpoints {
  private static final Logger LOG = LoggerFactory.getLogger(DeltaCheckpoints.class);
  private static final long FINISH_TIMEOUT_MS = 600_000; // Delta would wait without a limit
  private static final String DESCRIPTION = "checkpoint of a Delta table's log, in the background";

  private final LatestOnlyExecutor<Runnable> writer =
      new LatestOnlyExecutor<>("assignor-bridge-delta-checkpoints", Runnable::run);
  private volatile boolean canWrite = true;
  private volatile Runnable pendingCheckpoint; // null once it is written or has failed
  private final AtomicBoolean hasEnded = new AtomicBoolean(); // since the last check

  /** Returns false if this Delta is incompatible and must write the checkpoints itself. */
  boolean canWrite() {
    return canWrite;
  }

  /** Returns whether a checkpoint has ended since the last call, or none is pending. */
  boolean mayHaveNewCheckpoint() {
    return hasEnded.getAndSet(false) || pendingCheckpoint == null;
  }

  /** Writes a checkpoint in the background, unless a newer one is requested first. */
  void write(Runnable checkpoint) {
    SparkSession session = SparkSession.active();
    pendingCheckpoint = checkpoint;
    writer.submit(
        () -> {
          try {
            SparkContext context = session.sparkContext();
            context.clearJobGroup(); // so that it is not cancelled with the query
            context.setJobDescription(DESCRIPTION);
            SparkSession.setActiveSession(session);
            checkpoint.run();
          } catch (LinkageError e) {
            canWrite = false;
            LOG.warn("with this Delta version, batches wait for checkpoints that Delta writes", e);
          } catch (Exception e) {
            LOG.warn("a Delta table's checkpoint was not written (the query continues)", e);
          } finally {
            hasEnded.set(true);
            if (pendingCheckpoint == checkpoint) {
              pendingCheckpoint = null;
            }
          }
        });
  }

  /** Waits for the pending checkpoint, at most ten minutes, and accepts no more. */
  void finish() {
    writer.finish(FINISH_TIMEOUT_MS);
  }
}
