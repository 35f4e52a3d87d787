package io.assignorbridge.planning;

import io.assignorbridge.model.PlannerException;
import org.apache.spark.SparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What happens to a batch without a usable answer: Spark handles it with one warning per reason, or
 * its query fails (`assignor.onError=fail`). After each failure in a row, twice as many batches pass
 * until the planner is asked again.
 */
final class Fallback {
  private static final Logger LOG = LoggerFactory.getLogger(Fallback.class);
  private static final int LONGEST_PAUSE_BATCHES = 64;

  private final SparkContext context;
  private final String what;
  private final String instead;
  private int failures; // in a row
  private int batches; // until the planner is asked again
  private String lastReason;

  /** `what` cannot be done to a batch; `instead`, Spark's own are used. For messages. */
  Fallback(SparkContext context, String what, String instead) {
    this.context = context;
    this.what = what;
    this.instead = instead;
  }

  /** Returns whether the planner is not asked for this batch; to be called once for each. */
  boolean pause() {
    return batches > 0 && batches-- > 0;
  }

  String whyPaused() {
    return "paused after " + failures + " failures in a row";
  }

  void succeeded() {
    failures = 0;
    batches = 0;
    lastReason = null;
  }

  /** Fails the query if `failQuery`; else warns, unless the failure before had the same reason. */
  void failed(PlannerException e, boolean failQuery) {
    String who = "query " + context.getLocalProperty("sql.streaming.queryId");
    if (failQuery) {
      throw new IllegalStateException(
          "assignor-bridge could not " + what + " a micro-batch of " + who + ": " + e.getMessage(), e);
    }
    failures++;
    batches = Math.min(LONGEST_PAUSE_BATCHES, 1 << Math.min(20, failures - 1)) - 1;
    if (!e.getMessage().equals(lastReason)) {
      LOG.warn(
          "assignor-bridge could not {} a micro-batch of {}, Spark's own {} instead"
              + " (assignor.onError=fail would stop the query): {}",
          what,
          who,
          instead,
          e.getMessage());
      LOG.debug("where it failed", e);
    }
    lastReason = e.getMessage();
  }

  /** Returns why there is no answer. Spark takes an interrupt as the query's end: it is thrown. */
  static PlannerException reasonOf(Throwable e, String sparkVersion) {
    if (e instanceof InterruptedException) {
      throw Fallback.<RuntimeException>unchanged(e);
    }
    return e instanceof PlannerException failure
        ? failure
        : PlannerException.unexpected(e, sparkVersion);
  }

  @SuppressWarnings("unchecked") // the cast is the point: a checked exception leaves as it is
  private static <E extends Throwable> E unchanged(Throwable e) throws E {
    throw (E) e;
  }
}
