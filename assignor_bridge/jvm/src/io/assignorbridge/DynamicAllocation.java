package io.assignorbridge;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;

/** What the planner is told where executors come and go: Spark's limits, and how often it plans. */
final class DynamicAllocation {

  /** As of one batch; {@code sinceLastPlan} is in seconds and NaN before the second. */
  record Facts(int minExecutors, int maxExecutors, int slotsPerExecutor, double sinceLastPlan) {
    void write(JsonGenerator json) throws IOException {
      json.writeObjectFieldStart("allocation");
      json.writeNumberField("minExecutors", minExecutors);
      json.writeNumberField("maxExecutors", maxExecutors);
      json.writeNumberField("slotsPerExecutor", slotsPerExecutor);
      if (!Double.isNaN(sinceLastPlan)) {
        json.writeNumberField("secondsSinceLastPlan", sinceLastPlan);
      }
      json.writeEndObject();
    }
  }

  private long lastPlanNanos;
  private boolean planned;

  /** To be called once a plan; null where the number of executors is fixed. */
  Facts now(SparkContext context) {
    SparkConf conf = context.conf();
    if (context.isLocal() || !conf.getBoolean("spark.dynamicAllocation.enabled", false)) {
      return null;
    }
    long nanos = System.nanoTime();
    double since = planned ? (nanos - lastPlanNanos) / 1e9 : Double.NaN;
    lastPlanNanos = nanos;
    planned = true;
    return new Facts(
        conf.getInt("spark.dynamicAllocation.minExecutors", 0),
        conf.getInt("spark.dynamicAllocation.maxExecutors", Integer.MAX_VALUE),
        ExecutorList.slotsPerExecutor(context),
        since);
  }
}
