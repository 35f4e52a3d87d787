package io.assignorbridge;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** Verifies that a plan reads exactly the offsets of the batch; the last gate before Spark. */
final class PlanVerifier {

  /** Offsets of one partition from start (read) to end (not read). */
  record Range(String topic, int partition, long start, long end) {
    private boolean isOfPartition(Range other) {
      return partition == other.partition && topic.equals(other.topic);
    }

    @Override
    public String toString() {
      return topic + "-" + partition + "[" + start + "," + end + ")";
    }
  }

  private static final Comparator<Range> BY_OFFSET =
      Comparator.comparing(Range::topic)
          .thenComparingInt(Range::partition)
          .thenComparingLong(Range::start);

  private PlanVerifier() {}

  static void verify(List<Range> requested, List<Range> planned) throws PlannerException {
    for (Range range : planned) {
      if (range.start() >= range.end()) {
        throw new PlannerException("the plan holds the empty range " + range);
      }
    }
    List<Range> expected = joined(requested);
    List<Range> actual = joined(planned);
    if (expected.equals(actual)) {
      return;
    }
    int common = 0;
    while (common < Math.min(expected.size(), actual.size())
        && expected.get(common).equals(actual.get(common))) {
      common++;
    }
    Range first =
        Stream.concat(expected.stream().skip(common), actual.stream().skip(common))
            .min(BY_OFFSET)
            .orElseThrow();
    throw new PlannerException(
        "the plan does not cover the batch: it should read "
            + ofPartition(first, expected)
            + " and reads "
            + ofPartition(first, actual)
            + " of that partition");
  }

  private static String ofPartition(Range one, List<Range> ranges) {
    List<Range> its = ranges.stream().filter(one::isOfPartition).toList();
    return its.isEmpty() ? "nothing" : its.toString();
  }

  /** Sorts the ranges and joins those that touch. */
  private static List<Range> joined(List<Range> ranges) throws PlannerException {
    List<Range> sorted = new ArrayList<>(ranges);
    sorted.sort(BY_OFFSET);
    List<Range> joined = new ArrayList<>(sorted.size());
    Range last = null;
    for (Range next : sorted) {
      if (last != null && last.isOfPartition(next) && next.start() <= last.end()) {
        if (next.start() < last.end()) {
          throw new PlannerException("the plan reads offsets twice: " + last + " and " + next);
        }
        next = new Range(last.topic(), last.partition(), last.start(), next.end());
        joined.remove(joined.size() - 1);
      }
      joined.add(next);
      last = next;
    }
    return joined;
  }
}
