package io.assignorbridge.planning;

import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.worker.Columns;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Verifies, before Spark gets a plan, that it reads each offset of the batch exactly once, and that
 * tail tasks are sorted.
 */
final class PlanVerifier {
  private static final Comparator<OffsetRange> BY_OFFSET =
      Comparator.comparing(OffsetRange::topic)
          .thenComparingInt(OffsetRange::partition)
          .thenComparingLong(OffsetRange::start);

  private PlanVerifier() {}

  static void verify(List<OffsetRange> requestedRanges, List<OffsetRange> plannedRanges)
      throws PlannerException {
    for (OffsetRange range : plannedRanges) {
      if (range.start() >= range.end()) {
        throw new PlannerException("the plan has the empty range " + range);
      }
    }
    List<OffsetRange> expectedRanges = sortAndJoin(requestedRanges);
    List<OffsetRange> actualRanges = sortAndJoin(plannedRanges);
    if (expectedRanges.equals(actualRanges)) {
      return;
    }
    int equalCount = 0;
    while (equalCount < Math.min(expectedRanges.size(), actualRanges.size())
        && expectedRanges.get(equalCount).equals(actualRanges.get(equalCount))) {
      equalCount++;
    }
    OffsetRange firstDifference =
        Stream.concat(expectedRanges.stream().skip(equalCount), actualRanges.stream().skip(equalCount))
            .min(BY_OFFSET)
            .orElseThrow();
    throw new PlannerException(
        "the plan does not match the batch: it should read "
            + describePartition(firstDifference, expectedRanges) + ", but it reads "
            + describePartition(firstDifference, actualRanges) + " from that partition");
  }

  /** Verifies that only tail tasks lack a slot, and that the longest of them come first. */
  static void verifyTail(List<Columns.Task> tasks) throws PlannerException {
    double maxSeconds = Double.POSITIVE_INFINITY;
    for (int i = 0; i < tasks.size(); i++) {
      Columns.Task task = tasks.get(i);
      if ((task.tail() == null) != (task.slot() >= 0)) {
        throw new PlannerException(
            "task " + i + " of the plan has slot " + task.slot() + ": expected "
                + (task.tail() == null ? "0 or more outside the tail" : "-1 for a tail task"));
      }
      if (task.tail() != null) {
        double seconds = task.tail().seconds();
        if (!(seconds <= maxSeconds)) { // also if NaN; Spark starts the tasks of a stage in order
          throw new PlannerException(
              "task " + i + " of the plan, in the tail, takes " + seconds + " s: expected at most "
                  + maxSeconds + " s, because the longest tail tasks come first");
        }
        maxSeconds = seconds;
      }
    }
  }

  private static String describePartition(OffsetRange range, List<OffsetRange> ranges) {
    List<OffsetRange> partitionRanges = ranges.stream().filter(range::isOfSamePartition).toList();
    return partitionRanges.isEmpty() ? "nothing" : partitionRanges.toString();
  }

  /** Sorts the ranges and joins adjacent ones; fails if two overlap. */
  private static List<OffsetRange> sortAndJoin(List<OffsetRange> ranges) throws PlannerException {
    List<OffsetRange> sortedRanges = new ArrayList<>(ranges);
    sortedRanges.sort(BY_OFFSET);
    List<OffsetRange> joinedRanges = new ArrayList<>(sortedRanges.size());
    OffsetRange lastRange = null;
    for (OffsetRange nextRange : sortedRanges) {
      if (lastRange != null
          && lastRange.isOfSamePartition(nextRange)
          && nextRange.start() <= lastRange.end()) {
        if (nextRange.start() < lastRange.end()) {
          throw new PlannerException("the plan reads offsets twice: " + lastRange + " and " + nextRange);
        }
        nextRange =
            new OffsetRange(
                lastRange.topic(), lastRange.partition(), lastRange.start(), nextRange.end());
        joinedRanges.remove(joinedRanges.size() - 1);
      }
      joinedRanges.add(nextRange);
      lastRange = nextRange;
    }
    return joinedRanges;
  }
}
