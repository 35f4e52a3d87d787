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

/** Collects the `assignor.*` metrics for Spark's progress, and reader reports for the next plan. */
final class PlanFigures {
  private record ReportKey(long plan, int task, String topic, int partition, long offsets) {}

  private static final int MAX_REASON_CHARS = 500;

  private final Map<String, String> planMetrics = new TreeMap<>();
  private final Map<ReportKey, ReadReport> reportByKey = new HashMap<>(); // since the last plan
  private final Map<Integer, Boolean> isLocalByTask = new HashMap<>();
  private final Map<String, String> admissionMetrics = new TreeMap<>();
  private long planNumber;
  private long fallbackCount;
  private boolean isFallbackCounted; // in the current batch
  private long readBytes;
  private long lostOffsets;
  private long oldestMillis = Long.MAX_VALUE; // of the plan's records; above `newestMillis` if none
  private long newestMillis = Long.MIN_VALUE;

  void setPlan(Messages.Planned plan, long planNumber, int taskCount, long planMillis) {
    this.planNumber = planNumber;
    startBatch(plan.assignor(), taskCount);
    planMetrics.putAll(plan.metrics());
    planMetrics.put("planMillis", Long.toString(planMillis));
  }

  void setFallback(String reason, int taskCount) {
    countFallback();
    startBatch("spark", taskCount);
    planMetrics.put("fallbackReason", shortenToFirstLine(reason));
  }

  /** Reports that assignor-bridge is off, which is not a failure and must not raise an alert. */
  void setSwitchedOff(String reason, int taskCount) {
    admissionMetrics.clear();
    startBatch("spark", taskCount);
    planMetrics.put("switchedOff", shortenToFirstLine(reason));
  }

  private static String shortenToFirstLine(String reason) {
    return PlannerException.shorten(reason.lines().findFirst().orElse(""), MAX_REASON_CHARS);
  }

  void setAdmitted(Map<String, String> metrics) {
    isFallbackCounted = false;
    admissionMetrics.clear();
    admissionMetrics.putAll(metrics);
  }

  void setNotAdmitted(String reason) {
    setAdmitted(Map.of("heldBackBy", "spark", "fallbackReason", shortenToFirstLine(reason)));
    countFallback();
  }

  /** Counts at most one fallback per batch, even if both its limit and its plan failed. */
  private void countFallback() {
    fallbackCount += isFallbackCounted ? 0 : 1;
    isFallbackCounted = true;
  }

  /** Adds reader reports; if a repeated stage reads a range again, its new report replaces the old. */
  void addReports(List<ReadReport> newReports) {
    for (ReadReport r : newReports) {
      readBytes += r.bytes();
      ReportKey key = new ReportKey(r.plan(), r.task(), r.topic(), r.partition(), r.offsets());
      if (reportByKey.put(key, r) == null) {
        lostOffsets += r.lostOffsets();
      }
      if (r.plan() == planNumber) {
        oldestMillis = Math.min(oldestMillis, r.oldestMillis());
        newestMillis = Math.max(newestMillis, r.newestMillis());
        if (r.plannedExecutor() != null) {
          isLocalByTask.put(r.task(), r.plannedExecutor().equals(r.executor()));
        }
      }
    }
  }

  List<ReadReport> reports() {
    return new ArrayList<>(reportByKey.values());
  }

  /** Returns the reports since the last plan, and removes them. */
  List<ReadReport> takeReports() {
    List<ReadReport> takenReports = reports();
    reportByKey.clear();
    return takenReports;
  }

  /** Returns the metrics; freshness only once per batch, as Spark also calls this while idle. */
  Map<String, String> metrics(long nowMillis) {
    Map<String, String> allMetrics = new TreeMap<>();
    admissionMetrics.forEach((name, value) -> allMetrics.put("assignor." + name, value));
    planMetrics.forEach((name, value) -> allMetrics.put("assignor." + name, value));
    allMetrics.put("assignor.fallbacks", Long.toString(fallbackCount));
    allMetrics.put("assignor.readBytes", Long.toString(readBytes));
    allMetrics.put("assignor.offsetsLost", Long.toString(lostOffsets));
    if (!isLocalByTask.isEmpty()) {
      long localTaskCount = isLocalByTask.values().stream().filter(isLocal -> isLocal).count();
      double hitRate = localTaskCount / (double) isLocalByTask.size();
      allMetrics.put("assignor.localityHitRate", String.format(Locale.ROOT, "%.4f", hitRate));
    }
    if (oldestMillis <= newestMillis) {
      allMetrics.put("assignor.freshnessSeconds", formatAgeSeconds(nowMillis - newestMillis));
      allMetrics.put("assignor.freshnessSecondsMax", formatAgeSeconds(nowMillis - oldestMillis));
      resetTimestamps();
    }
    return allMetrics;
  }

  /** Formats an age in seconds, at least 0 because a producer's clock may be ahead of the driver's. */
  private static String formatAgeSeconds(long millis) {
    return String.format(Locale.ROOT, "%.3f", Math.max(0, millis) / 1000.0);
  }

  private void resetTimestamps() {
    oldestMillis = Long.MAX_VALUE;
    newestMillis = Long.MIN_VALUE;
  }

  private void startBatch(String strategy, int taskCount) {
    isFallbackCounted = false;
    isLocalByTask.clear();
    resetTimestamps();
    planMetrics.clear();
    planMetrics.put("strategy", strategy);
    planMetrics.put("tasks", Integer.toString(taskCount));
  }
}
