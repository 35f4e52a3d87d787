package io.assignorbridge;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Verifies that a plan reads exactly the offsets of the batch: no gap, no overlap, nothing else. The
 * last gate before Spark; it trusts nobody.
 */
final class PlanVerifier {

  /** Offsets of one partition from start (read) to end (not read). */
  record Range(String topic, int partition, long start, long end) {
    @Override
    public String toString() {
      return topic + "-" + partition + "[" + start + "," + end + ")";
    }
  }

  private record Key(String topic, int partition) {}

  private PlanVerifier() {}

  static void verify(List<Range> owed, List<Range> planned) throws PlannerException {
    for (Range range : planned) {
      if (range.start() >= range.end()) {
        throw new PlannerException("the plan holds the empty range " + range);
      }
    }
    Map<Key, List<Range>> want = merged(owed);
    Map<Key, List<Range>> have = merged(planned);
    for (Map.Entry<Key, List<Range>> entry : have.entrySet()) {
      if (!entry.getValue().equals(want.get(entry.getKey()))) {
        throw different(want.get(entry.getKey()), entry.getValue());
      }
    }
    for (Map.Entry<Key, List<Range>> entry : want.entrySet()) {
      if (!have.containsKey(entry.getKey())) {
        throw different(entry.getValue(), null);
      }
    }
  }

  private static PlannerException different(List<Range> want, List<Range> have) {
    return new PlannerException(
        "the plan does not tile the batch: it should read "
            + (want == null ? "nothing" : want)
            + " and reads "
            + (have == null ? "nothing" : have)
            + " of that partition");
  }

  /** The ranges by partition, sorted, touching ones joined. */
  private static Map<Key, List<Range>> merged(List<Range> ranges) throws PlannerException {
    Map<Key, List<Range>> byPartition = new HashMap<>(2 * ranges.size());
    for (Range range : ranges) {
      byPartition
          .computeIfAbsent(new Key(range.topic(), range.partition()), k -> new ArrayList<>(2))
          .add(range);
    }
    for (Map.Entry<Key, List<Range>> entry : byPartition.entrySet()) {
      List<Range> sorted = entry.getValue();
      if (sorted.size() > 1) {
        sorted.sort(Comparator.comparingLong(Range::start));
        entry.setValue(joined(sorted));
      }
    }
    return byPartition;
  }

  private static List<Range> joined(List<Range> sorted) throws PlannerException {
    List<Range> joined = new ArrayList<>(2);
    Range last = sorted.get(0);
    for (Range next : sorted.subList(1, sorted.size())) {
      if (next.start() < last.end()) {
        throw new PlannerException("the plan reads offsets twice: " + last + " and " + next);
      }
      if (next.start() == last.end()) {
        last = new Range(last.topic(), last.partition(), last.start(), next.end());
      } else {
        joined.add(last);
        last = next;
      }
    }
    joined.add(last);
    return joined;
  }
}
