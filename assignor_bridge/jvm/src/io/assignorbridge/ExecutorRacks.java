package io.assignorbridge;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.status.api.v1.ExecutorSummary;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Where executors are, by the first that says so: the file of hosts (`assignor.rackFile`), the
 * environment variable that `assignor.rack` names, SPARK_EXECUTOR_ATTRIBUTE_RACK, which executors send
 * when they register, or YARN's topology. Null: unknown.
 */
final class ExecutorRacks {
  private static final Logger LOG = LoggerFactory.getLogger(ExecutorRacks.class);
  private static final String ATTRIBUTE = "RACK"; // Spark cuts the prefix off the variable's name
  private static final String ENV = "env:";

  private final RackFile file; // null without the option
  private final String variable; // null without the option
  private final Reports<ReaderRacks.Report> reports = new Reports<>();
  private final Map<String, String> reported = new HashMap<>(); // by id of executor
  private boolean warned;

  ExecutorRacks(SparkContext context, String source, String file) throws PlannerException {
    this.file = file == null ? null : new RackFile(file);
    variable = source == null ? null : source.substring(ENV.length());
    context.register(reports);
  }

  /** What a reader needs to know where it runs, and to tell. */
  ReaderRacks forReaders(
      List<ExecutorList.Executor> executors, Reports<CrossZoneBytes.Received> received) {
    return new ReaderRacks(variable, reports, received, executors);
  }

  /** Before each plan: takes in what executors said, and a file that has changed. */
  void update() {
    reports.drain().forEach(report -> reported.put(report.executor(), report.rack()));
    if (file != null) {
      file.update();
    }
  }

  /** Forgets executors that are gone. */
  void keep(Set<String> executors) {
    reported.keySet().retainAll(executors);
  }

  /** A failure is no reason to lose a batch. */
  String of(ExecutorSummary executor, String host, TaskScheduler scheduler) {
    try {
      return rackOf(executor, host, scheduler);
    } catch (Exception | LinkageError e) { // Scala's methods throw checked exceptions unannounced
      if (!warned) {
        LOG.warn(
            "assignor-bridge does not know in which rack executor {} is, so it counts as near to all"
                + " partitions (warned once): {}",
            executor.id(),
            e.toString());
        warned = true;
      }
      return null;
    }
  }

  private String rackOf(ExecutorSummary executor, String host, TaskScheduler scheduler) {
    String rack = file == null ? null : file.of(host);
    if (rack == null) {
      rack = reported.get(executor.id());
    }
    if (rack == null) {
      rack = ReaderRacks.named(executor.attributes().getOrElse(ATTRIBUTE, () -> null));
    }
    return rack == null ? ofYarn(scheduler, host) : rack;
  }

  /** Without a topology, YARN has all hosts in one rack; names begin with a slash there, not in Kafka. */
  static String ofYarn(TaskScheduler scheduler, String host) {
    if (scheduler instanceof TaskSchedulerImpl own) {
      Option<String> rack = own.getRackForHost(host);
      if (rack.isDefined() && !rack.equals(own.defaultRackValue())) {
        return ReaderRacks.named(rack.get().replaceFirst("^/", ""));
      }
    }
    return null;
  }
}
