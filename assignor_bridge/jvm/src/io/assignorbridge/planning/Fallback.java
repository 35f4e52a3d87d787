package io.assignorbridge.planning;

import io.assignorbridge.model.PlannerException;
import org.apache.spark.SparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Handles failures to plan or limit a batch. Spark then plans or limits it, or the query fails
 * (`assignor.onError=fail`). A failure with a new reason is logged. Each failure in a row doubles
 * the number of batches until the next request to the planner, up to 64.
 */
final class Fallback {
  private static final Logger LOG = LoggerFactory.getLogger(Fallback.class);
  private static final int MAX_BATCHES_TO_NEXT_REQUEST = 64;

  private final SparkContext context;
  private final String action;
  private final String replacement;
  private int failuresInRow;
  private int batchesToSkip; // before the next request to the planner
  private String lastReason; // null after a success

  /** Creates a fallback that reports which `action` failed and which `replacement` applies. */
  Fallback(SparkContext context, String action, String replacement) {
    this.context = context;
    this.action = action;
    this.replacement = replacement;
  }

  /** Returns whether to skip the planner for this batch; call it once per batch. */
  boolean shouldSkipBatch() {
    return batchesToSkip > 0 && batchesToSkip-- > 0;
  }

  String describePause() {
    return "paused after " + failuresInRow + " failures in a row";
  }

  void reset() {
    failuresInRow = 0;
    batchesToSkip = 0;
    lastReason = null;
  }

  /** Fails the query if `failQuery`; otherwise, sets the pause, and warns of a new reason. */
  void handleFailure(PlannerException e, boolean failQuery) {
    String query = "query " + context.getLocalProperty("sql.streaming.queryId");
    if (failQuery) {
      throw new IllegalStateException(
          "assignor-bridge could not " + action + " a micro-batch of " + query + ": " + e.getMessage(), e);
    }
    failuresInRow++;
    batchesToSkip = Math.min(MAX_BATCHES_TO_NEXT_REQUEST, 1 << Math.min(20, failuresInRow - 1)) - 1;
    if (!e.getMessage().equals(lastReason)) {
      LOG.warn(
          "assignor-bridge could not {} a micro-batch of {}; {} instead"
              + " (assignor.onError=fail would stop the query): {}",
          action, query, replacement, e.getMessage());
      LOG.debug("stack trace of the failure", e);
    }
    lastReason = e.getMessage();
  }

  /** Converts an error to a PlannerException; rethrows an interrupt, which ends the query. */
  static PlannerException toPlannerException(Throwable e, String sparkVersion) {
    if (e instanceof InterruptedException) {
      throw Fallback.<RuntimeException>throwUnchecked(e);
    }
    return e instanceof PlannerException failure
        ? failure
        : PlannerException.fromUnexpected(e, sparkVersion);
  }

  @SuppressWarnings("unchecked") // hides a checked exception from the compiler
  private static <E extends Throwable> E throwUnchecked(Throwable e) throws E {
    throw (E) e;
  }
}
