package io.assignorbridge.planning;

import io.assignorbridge.model.PlannerException;
import io.assignorbridge.model.ReadReport;
import io.assignorbridge.worker.Messages;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** The `assignor.*` metrics of the progress, and what readers reported for the next plan. */
final class PlanFigures {
  private record Range(long plan, int task, String topic, int partition, long offsets) {}

  private static final int MOST_OF_REASON = 500;

  private final Map<String, String> latest = new TreeMap<>();
  private final Map<Range, ReadReport> unread = new HashMap<>();
  private final Map<Integer, Boolean> hits = new HashMap<>();
  private final Map<String, String> admission = new TreeMap<>();
  private long plan;
  private long fallbacks;
  private boolean fallbackCounted; // of the batch that was limited last
  private long readBytes;
  private long lost;
  private long oldest = Long.MAX_VALUE; // timestamps of what the plan read; none while above newest
  private long newest = Long.MIN_VALUE;

  void planned(Messages.Planned answer, long number, int tasks, long millis) {
    plan = number;
    begin(answer.assignor(), tasks);
    latest.putAll(answer.metrics());
    latest.put("planMillis", Long.toString(millis));
  }

  void fellBack(String why, int tasks) {
    countFallback();
    begin("spark", tasks);
    latest.put("fallbackReason", reason(why));
  }

  /** Which is no failure: nobody need be alarmed. */
  void switchedOff(String why, int tasks) {
    admission.clear();
    begin("spark", tasks);
    latest.put("switchedOff", reason(why));
  }

  private static String reason(String why) {
    return PlannerException.shorten(why.lines().findFirst().orElse(""), MOST_OF_REASON);
  }

  void admitted(Map<String, String> metrics) {
    fallbackCounted = false;
    admission.clear();
    admission.putAll(metrics);
  }

  void notAdmitted(String why) {
    admitted(Map.of("heldBackBy", "spark", "fallbackReason", reason(why)));
    countFallback();
  }

  /** Once a batch, whether its limits, its plan or both failed. */
  private void countFallback() {
    fallbacks += fallbackCounted ? 0 : 1;
    fallbackCounted = true;
  }

  /** Takes in what finished readers sent; a range read twice (a stage run again) counts once. */
  void read(List<ReadReport> reports) {
    for (ReadReport r : reports) {
      readBytes += r.bytes();
      Range range = new Range(r.plan(), r.task(), r.topic(), r.partition(), r.offsets());
      if (unread.put(range, r) == null) {
        lost += r.lost();
      }
      if (r.plan() == plan) {
        oldest = Math.min(oldest, r.oldest());
        newest = Math.max(newest, r.newest());
        if (r.plannedExecutor() != null) {
          hits.put(r.task(), r.plannedExecutor().equals(r.executor()));
        }
      }
    }
  }

  /** What was observed since the last plan. */
  List<ReadReport> observed() {
    return new ArrayList<>(unread.values());
  }

  /** The same, for a plan: the next one begins anew. */
  List<ReadReport> takeObserved() {
    List<ReadReport> observed = observed();
    unread.clear();
    return observed;
  }

  /** To be asked once a batch, at its end, and when idle: how old a batch is, is told once. */
  Map<String, String> metrics(long nowMillis) {
    Map<String, String> all = new TreeMap<>();
    admission.forEach((name, value) -> all.put("assignor." + name, value));
    latest.forEach((name, value) -> all.put("assignor." + name, value));
    all.put("assignor.fallbacks", Long.toString(fallbacks));
    all.put("assignor.readBytes", Long.toString(readBytes));
    all.put("assignor.offsetsLost", Long.toString(lost));
    if (!hits.isEmpty()) {
      double rate = hits.values().stream().filter(hit -> hit).count() / (double) hits.size();
      all.put("assignor.localityHitRate", String.format(Locale.ROOT, "%.4f", rate));
    }
    if (oldest <= newest) {
      all.put("assignor.freshnessSeconds", seconds(nowMillis - newest));
      all.put("assignor.freshnessSecondsMax", seconds(nowMillis - oldest));
      forgetAges();
    }
    return all;
  }

  /** A producer's clock may be ahead of this one. */
  private static String seconds(long millis) {
    return String.format(Locale.ROOT, "%.3f", Math.max(0, millis) / 1000.0);
  }

  private void forgetAges() {
    oldest = Long.MAX_VALUE;
    newest = Long.MIN_VALUE;
  }

  private void begin(String strategy, int tasks) {
    fallbackCounted = false;
    hits.clear();
    forgetAges();
    latest.clear();
    latest.put("strategy", strategy);
    latest.put("tasks", Integer.toString(tasks));
  }
}
