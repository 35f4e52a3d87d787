package io.assignorbridge.cluster;

import io.assignorbridge.model.Allocation;
import io.assignorbridge.model.Executor;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.ExecutorAllocationClient;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.status.api.v1.ExecutorSummary;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lists the application's executors; the planner decides which of them to use.
 *
 * <p>Some of the Spark methods called here are `private[spark]` in Scala, but public in the bytecode
 * of Spark 4.0 to 4.2.
 */
public final class ExecutorList {
  private ExecutorList() {}

  /** Updates the racks; returns the active executors that have slots (none in local mode). */
  static List<Executor> listExecutors(SparkContext context, ExecutorRacks racks) {
    List<Executor> executors = new ArrayList<>();
    racks.update();
    for (ExecutorSummary e : listSummaries(context)) {
      if (!e.id().equals("driver") && e.maxTasks() > 0) {
        String host = e.hostPort().replaceFirst(":[^:]*$", "");
        TaskScheduler scheduler = context.taskScheduler();
        executors.add(
            new Executor(
                e.id(),
                host,
                e.maxTasks(),
                racks.findRack(e, host, scheduler),
                e.isExcluded(),
                isLeaving(scheduler, e.id()),
                e.resourceProfileId()));
      }
    }
    racks.retain(executors.stream().map(Executor::id).collect(Collectors.toSet()));
    return executors;
  }

  /**
   * Returns the number of slots to plan for if no executor is known: the driver's slots in local
   * mode (where `spark.default.parallelism` is for shuffles), otherwise Spark's default parallelism.
   */
  public static int getPlanningParallelism(SparkContext context) {
    int slots = context.defaultParallelism();
    if (context.isLocal()) {
      for (ExecutorSummary e : listSummaries(context)) {
        if (e.id().equals("driver") && e.totalCores() > 0) { // 0 until the status store has them
          slots = e.totalCores() / context.conf().getInt("spark.task.cpus", 1);
        }
      }
    }
    return Math.max(1, slots);
  }

  /** Returns how many tasks active executors can run at once; {@link #getPlanningParallelism} if 0. */
  public static int countSlots(SparkContext context) {
    int slots = 0;
    for (ExecutorSummary e : listSummaries(context)) {
      slots += e.id().equals("driver") || !e.isActive() ? 0 : e.maxTasks();
    }
    return slots > 0 ? slots : getPlanningParallelism(context);
  }

  /** Returns the limits of dynamic allocation, or null if it is off or Spark is in local mode. */
  public static Allocation readAllocation(SparkContext context, Double secondsSinceLastPlan) {
    SparkConf conf = context.conf();
    if (context.isLocal() || !conf.getBoolean("spark.dynamicAllocation.enabled", false)) {
      return null;
    }
    return new Allocation(
        conf.getInt("spark.dynamicAllocation.minExecutors", 0),
        conf.getInt("spark.dynamicAllocation.maxExecutors", Integer.MAX_VALUE),
        Math.max(
            1,
            context.resourceProfileManager().defaultResourceProfile().maxTasksPerExecutor(conf)),
        secondsSinceLastPlan);
  }

  private static Iterable<ExecutorSummary> listSummaries(SparkContext context) {
    return CollectionConverters.asJava(context.statusStore().executorList(true));
  }

  private static boolean isLeaving(TaskScheduler scheduler, String executor) {
    if (scheduler instanceof TaskSchedulerImpl schedulerImpl
        && schedulerImpl.backend() instanceof ExecutorAllocationClient backend) {
      return !backend.isExecutorActive(executor); // inactive once Spark decides to remove it
    }
    return scheduler.getExecutorDecommissionState(executor).isDefined();
  }
}
