package io.assignorbridge.model;

import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.util.AccumulatorV2;

/**
 * Collects the reports of successful tasks on the driver. Spark drops the reports of failed tasks,
 * and of tasks whose speculative copy finished first.
 */
public final class ReportAccumulator<T> extends AccumulatorV2<T, List<T>> {
  private final ArrayList<T> reports = new ArrayList<>();

  @Override
  public synchronized boolean isZero() {
    return reports.isEmpty();
  }

  @Override
  public synchronized AccumulatorV2<T, List<T>> copy() {
    ReportAccumulator<T> other = new ReportAccumulator<>();
    other.reports.addAll(reports);
    return other;
  }

  @Override
  public synchronized void reset() {
    reports.clear();
  }

  @Override
  public synchronized void add(T report) {
    reports.add(report);
  }

  @Override
  public void merge(AccumulatorV2<T, List<T>> other) {
    List<T> otherReports = other.value();
    synchronized (this) {
      reports.addAll(otherReports);
    }
  }

  @Override
  public synchronized List<T> value() {
    return List.copyOf(reports);
  }

  /** Holds the lock, because a heartbeat may serialize the reports while a reader adds one. */
  private synchronized void writeObject(ObjectOutputStream out) throws IOException {
    out.defaultWriteObject();
  }

  /** Returns the reports received since the last call. */
  public synchronized List<T> drain() {
    List<T> drainedReports = List.copyOf(reports);
    reports.clear();
    return drainedReports;
  }
}
