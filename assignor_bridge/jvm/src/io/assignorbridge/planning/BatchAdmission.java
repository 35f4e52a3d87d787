package io.assignorbridge.planning;

import io.assignorbridge.admission.LimitedBatch;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.worker.Messages;
import io.assignorbridge.worker.SharedPlanner;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.kafka010.KafkaSourceOffset;

/** Requests the end of each limited batch, and measures how long admitted batches take. */
final class BatchAdmission {
  private static final int MAX_LOOK_UPS = 3; // per batch; the planner requests at most two

  /** The planner's verified answer: where the batch ends, and metrics of its limits. */
  record Admission(Offset end, Map<String, String> metrics) {}

  /** A batch whose end the planner chose. `logEntry` is for the plan log; null without that log. */
  private record AdmittedBatch(Offset end, long offsetCount, long startedNanos, String logEntry) {}

  private AdmittedBatch admittedBatch; // null unless one is being measured
  private Messages.CompletedBatch lastCompletedBatch; // not yet sent to the planner; null if none

  /** Returns the size and duration of the batch completed since the last request, or null. */
  Messages.CompletedBatch lastCompletedBatch() {
    return lastCompletedBatch;
  }

  /** Requests a batch's end, performs the look-ups that the planner needs, and verifies the end. */
  Admission admit(
      Messages.AdmitBatch request,
      LimitedBatch batch,
      long startedNanos,
      SharedPlanner.Client planner,
      StreamResources resources)
      throws PlannerException, InterruptedException {
    admittedBatch = null;
    lastCompletedBatch = null;
    long timeoutMs = resources.options().planTimeoutMs();
    String answer = planner.sendRequest(Messages.format(request), timeoutMs);
    for (int i = 0;
        i < MAX_LOOK_UPS
            && Messages.parse(answer, Messages.Answer.class) instanceof Messages.LookUp lookUp;
        i++) {
      request =
          request.withTimes(
              resources.times().lookUp(i + 1, lookUp.timeMs(), batch.unreadRanges(), timeoutMs));
      answer = planner.sendRequest(Messages.format(request), timeoutMs);
    }
    Messages.Admitted admittedAnswer = Messages.parse(answer, Messages.Admitted.class);
    List<OffsetRange> ranges = admittedAnswer.ranges().unpack();
    Offset end = batch.verifyEnd(ranges);
    long offsetCount = ranges.stream().mapToLong(range -> range.end() - range.start()).sum();
    String logEntry =
        resources.planLog() == null
            ? null
            : PlanLog.formatAdmission(Messages.format(request.forLog()), answer);
    admittedBatch = new AdmittedBatch(end, offsetCount, startedNanos, logEntry);
    return new Admission(end, admittedAnswer.metrics());
  }

  /** Measures the duration of the admitted batch, if it ends at this offset. */
  void complete(Offset end) {
    if (isAdmitted(end)) {
      double seconds = (System.nanoTime() - admittedBatch.startedNanos()) / 1e9;
      lastCompletedBatch = new Messages.CompletedBatch(admittedBatch.offsetCount(), seconds);
      admittedBatch = null;
    }
  }

  /** Forgets the admitted batch, so that its duration is not measured. */
  void forget() {
    admittedBatch = null;
  }

  /** Returns the log entry of the batch with this end: "" if not admitted, null without a log. */
  String logEntryOf(Offset end) {
    return isAdmitted(end) ? admittedBatch.logEntry() : "";
  }

  private boolean isAdmitted(Offset end) {
    return admittedBatch != null && admittedBatch.end().equals(KafkaSourceOffset.apply(end));
  }
}
