package io.assignorbridge;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.status.api.v1.ExecutorSummary;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The executors that Spark offers a stream's tasks: of the default resource profile (a micro-batch
 * has no other), not excluded, and alive for the scheduler. The status store alone is not asked who
 * lives: its listener may lose the end of an executor, and a share of each batch would wait for it.
 *
 * <p>What is `private[spark]` in Scala is public in bytecode, and the same in Spark 4.0 to 4.2.
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
    int defaultProfile = defaultProfile(context).id();
    List<Slots> executors = new ArrayList<>();
    for (ExecutorSummary e : summaries(context)) {
      if (!e.id().equals("driver")
          && e.resourceProfileId() == defaultProfile
          && e.maxTasks() > 0
          && !e.isExcluded()
          && takesTasks(context.taskScheduler(), e.id())) {
        executors.add(new Slots(e.id(), hostOf(e.hostPort()), e.maxTasks()));
      }
    }
    return executors;
  }

  /**
   * Slots to plan for without executors: the driver's own in local mode (and not
   * `spark.default.parallelism`, which is about shuffles), else Spark's guess of what will come.
   */
  static int parallelism(SparkContext context) {
    int slots = context.defaultParallelism();
    if (context.isLocal()) {
      for (ExecutorSummary e : summaries(context)) {
        if (e.id().equals("driver") && e.totalCores() > 0) { // 0 until the store has heard of them
          slots = e.totalCores() / context.conf().getInt("spark.task.cpus", 1);
        }
      }
    }
    return Math.max(1, slots);
  }

  /** Tasks that Spark counts on for each executor that it asks for. */
  static int slotsPerExecutor(SparkContext context) {
    return Math.max(1, defaultProfile(context).maxTasksPerExecutor(context.conf()));
  }

  private static Iterable<ExecutorSummary> summaries(SparkContext context) {
    return CollectionConverters.asJava(context.statusStore().executorList(true));
  }

  private static ResourceProfile defaultProfile(SparkContext context) {
    return context.resourceProfileManager().defaultResourceProfile();
  }

  /** Not of an executor that is gone or being decommissioned. */
  private static boolean takesTasks(TaskScheduler scheduler, String executor) {
    return scheduler instanceof TaskSchedulerImpl own
        ? own.isExecutorAlive(executor)
        : scheduler.getExecutorDecommissionState(executor).isEmpty();
  }

  private static String hostOf(String hostPort) {
    int colon = hostPort.lastIndexOf(':');
    return colon < 0 ? hostPort : hostPort.substring(0, colon);
  }
}
