package io.assignorbridge;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.status.api.v1.ExecutorSummary;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The executors that are given work: those that Spark's status store knows, without excluded ones
 * and those that are being decommissioned (Spark offers them no tasks any more).
 */
final class ExecutorList {

  /** One executor: its id, its host and how many tasks it runs at once. */
  record Slots(String id, String host, int slots) {
    /** Spark's location string for exactly this executor. */
    String location() {
      return "executor_" + host + "_" + id;
    }
  }

  private ExecutorList() {}

  /** Empty in local mode and before the first executor has registered. */
  static List<Slots> of(SparkContext context) {
    int cpusPerTask = context.conf().getInt("spark.task.cpus", 1);
    List<Slots> executors = new ArrayList<>();
    for (ExecutorSummary e :
        CollectionConverters.asJava(context.statusStore().executorList(true))) {
      int slots = e.totalCores() / Math.max(1, cpusPerTask);
      if (!e.id().equals("driver") && !e.isExcluded() && slots > 0 && !isLeaving(context, e.id())) {
        executors.add(new Slots(e.id(), hostOf(e.hostPort()), slots));
      }
    }
    return executors;
  }

  /** `private[spark]` in Scala, public in bytecode; the same in Spark 4.0 to 4.2. */
  private static boolean isLeaving(SparkContext context, String executor) {
    return context.taskScheduler().getExecutorDecommissionState(executor).isDefined();
  }

  private static String hostOf(String hostPort) {
    int colon = hostPort.lastIndexOf(':');
    return colon < 0 ? hostPort : hostPort.substring(0, colon);
  }
}
