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

/** Requests how far batches go, and measures each admitted batch until it is completed. */
final class BatchAdmission {
  private static final int MAX_LOOK_UPS = 3; // per batch; two are enough for the planner

  /** A verified answer. */
  record Admission(Offset end, Map<String, String> metrics) {}

  /** `logged` is its part of the plan log, null without a log. */
  private record AdmittedBatch(Offset end, long records, long startedNanos, String logged) {}

  private AdmittedBatch admitted; // null if no batch has been admitted since the last completed one
  private Messages.CompletedBatch lastCompleted; // null after the planner has got it

  /** The last admitted batch that was completed since the last request; null: none. */
  Messages.CompletedBatch lastCompleted() {
    return lastCompleted;
  }

  /** Sends the request, again with each look-up of times that is requested, and verifies the answer. */
  Admission ask(
      Messages.AdmitBatch request,
      LimitedBatch batch,
      long startedNanos,
      SharedPlanner.Client planner,
      StreamResources resources)
      throws PlannerException, InterruptedException {
    admitted = null;
    lastCompleted = null;
    long limitMs = resources.options().planTimeoutMs();
    String text = planner.ask(Messages.write(request), limitMs);
    for (int i = 0;
        i < MAX_LOOK_UPS
            && Messages.read(text, Messages.Answer.class) instanceof Messages.LookUp lookUp;
        i++) {
      request =
          request.with(
              resources.times().lookUp(i + 1, lookUp.timeMs(), batch.waiting(), limitMs));
      text = planner.ask(Messages.write(request), limitMs);
    }
    Messages.Admitted answer = Messages.read(text, Messages.Admitted.class);
    List<OffsetRange> ranges = answer.ranges().unpack();
    Offset end = batch.end(ranges);
    long records = ranges.stream().mapToLong(range -> range.end() - range.start()).sum();
    String logged =
        resources.log() == null
            ? null
            : PlanLog.admission(Messages.write(request.forLog()), text);
    admitted = new AdmittedBatch(end, records, startedNanos, logged);
    return new Admission(end, answer.metrics());
  }

  /** All batches so far are completed, and these are their end offsets. */
  void completed(Offset end) {
    if (isOf(end)) {
      double seconds = (System.nanoTime() - admitted.startedNanos()) / 1e9;
      lastCompleted = new Messages.CompletedBatch(admitted.records(), seconds);
      admitted = null;
    }
  }

  /** Forgets the last admitted batch, which is not planned here. */
  void forget() {
    admitted = null;
  }

  /** Its part of the plan log of the batch that ends here; empty if it was not admitted here. */
  String loggedOf(Offset end) {
    return isOf(end) ? admitted.logged() : "";
  }

  private boolean isOf(Offset end) {
    return admitted != null && admitted.end().equals(KafkaSourceOffset.apply(end));
  }
}
