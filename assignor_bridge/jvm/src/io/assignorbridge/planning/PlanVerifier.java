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

  static void verify(List<OffsetRange> requested, List<OffsetRange> planned) throws PlannerException {
    for (OffsetRange range : planned) {
      if (range.start() >= range.end()) {
        throw new PlannerException("the plan has the empty range " + range);
      }
    }
    List<OffsetRange> expected = sortAndJoin(requested);
    List<OffsetRange> actual = sortAndJoin(planned);
    if (expected.equals(actual)) {
      return;
    }
    int common = 0;
    while (common < Math.min(expected.size(), actual.size())
        && expected.get(common).equals(actual.get(common))) {
      common++;
    }
    OffsetRange first =
        Stream.concat(expected.stream().skip(common), actual.stream().skip(common))
            .min(BY_OFFSET)
            .orElseThrow();
    throw new PlannerException(
        "the plan does not cover the batch: it should read "
            + describePartition(first, expected)
            + ", but it reads "
            + describePartition(first, actual)
            + " from that partition");
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
