package io.assignorbridge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** Keeps the `assignor.*` figures of the progress, and what readers reported for the planner. */
final class PlanFigures {
  private record Range(long plan, int task, String topic, int partition, long offsets) {}

  private static final int MOST_OF_REASON = 500;

  private final Map<String, String> latest = new TreeMap<>();
  private final Map<Range, ReadReport> unread = new HashMap<>();
  private final Map<Integer, Boolean> hits = new HashMap<>();
  private long plan;
  private long fallbacks;
  private long readBytes;
  private String lastFailure;

  void planned(PlanJson.Plan answer, long number, long millis, int executors) {
    plan = number;
    hits.clear();
    lastFailure = null;
    latest.clear();
    latest.put("strategy", answer.assignor());
    latest.put("tasks", Integer.toString(answer.tasks().size()));
    latest.put("executors", Integer.toString(executors));
    latest.putAll(answer.metrics());
    latest.put("planMillis", Long.toString(millis));
  }

  void fellBack(String why, int tasks) {
    fallbacks++;
    hits.clear();
    latest.clear();
    latest.put("strategy", "spark");
    latest.put("tasks", Integer.toString(tasks));
    String first = why.lines().findFirst().orElse("");
    latest.put("fallbackReason", PlannerException.shortened(first, MOST_OF_REASON));
  }

  /** Whether this failure differs from the last one: the same is not told twice in a row. */
  boolean isNews(String failure) {
    boolean news = !failure.equals(lastFailure);
    lastFailure = failure;
    return news;
  }

  /** Takes in what finished readers sent; a range read twice (a stage run again) counts once. */
  void read(List<ReadReport> reports) {
    for (ReadReport r : reports) {
      readBytes += r.bytes();
      unread.put(new Range(r.plan(), r.task(), r.topic(), r.partition(), r.offsets()), r);
      if (r.plan() == plan && r.plannedExecutor() != null) {
        hits.put(r.task(), r.plannedExecutor().equals(r.executor()));
      }
    }
  }

  /** What was observed since the last plan, for the next one. */
  List<ReadReport> takeObserved() {
    List<ReadReport> observed = new ArrayList<>(unread.values());
    unread.clear();
    return observed;
  }

  Map<String, String> metrics() {
    Map<String, String> all = new TreeMap<>();
    latest.forEach((name, value) -> all.put("assignor." + name, value));
    all.put("assignor.fallbacks", Long.toString(fallbacks));
    all.put("assignor.readBytes", Long.toString(readBytes));
    if (!hits.isEmpty()) {
      long hit = hits.values().stream().filter(h -> h).count();
      all.put(
          "assignor.localityHitRate", String.format(Locale.ROOT, "%.4f", hit / (double) hits.size()));
    }
    return all;
  }
}
