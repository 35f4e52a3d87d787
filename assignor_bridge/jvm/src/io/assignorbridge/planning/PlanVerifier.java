package io.assignorbridge.planning;

import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** Verifies, before Spark gets a plan, that it reads each offset of the batch exactly once. */
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
    List<OffsetRange> expected = sortAndJoin(requestedRanges);
    List<OffsetRange> actual = sortAndJoin(plannedRanges);
    if (expected.equals(actual)) {
      return;
    }
    int equalCount = 0;
    while (equalCount < Math.min(expected.size(), actual.size())
        && expected.get(equalCount).equals(actual.get(equalCount))) {
      equalCount++;
    }
    OffsetRange firstDifference =
        Stream.concat(expected.stream().skip(equalCount), actual.stream().skip(equalCount))
            .min(BY_OFFSET)
            .orElseThrow();
    throw new PlannerException(
        "the plan does not cover the batch: it should read "
            + describePartition(firstDifference, expected) + ", but it reads "
            + describePartition(firstDifference, actual) + " from that partition");
  }

  private static String describePartition(OffsetRange range, List<OffsetRange> ranges) {
    List<OffsetRange> partitionRanges = ranges.stream().filter(range::isOfSamePartition).toList();
    return partitionRanges.isEmpty() ? "nothing" : partitionRanges.toString();
  }

  /** Sorts the ranges and joins adjacent ones; fails if two overlap. */
  private static List<OffsetRange> sortAndJoin(List<OffsetRange> ranges) throws PlannerException {
    List<OffsetRange> sorted = new ArrayList<>(ranges);
    sorted.sort(BY_OFFSET);
    List<OffsetRange> joined = new ArrayList<>(sorted.size());
    OffsetRange last = null;
    for (OffsetRange next : sorted) {
      if (last != null && last.isOfSamePartition(next) && next.start() <= last.end()) {
        if (next.start() < last.end()) {
          throw new PlannerException("the plan reads offsets twice: " + last + " and " + next);
        }
        next = new OffsetRange(last.topic(), last.partition(), last.start(), next.end());
        joined.remove(joined.size() - 1);
      }
      joined.add(next);
      last = next;
    }
    return joined;
  }
}
