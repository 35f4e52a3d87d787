package io.assignorbridge.cluster;

import io.assignorbridge.model.Executor;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.model.ReportAccumulator;
import java.io.IOException;
import java.io.Serializable;
import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.status.api.v1.ExecutorSummary;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Finds each executor's rack in the first source that has it: the rack file (`assignor.rackFile`);
 * the environment variable that `assignor.rack` names; SPARK_EXECUTOR_ATTRIBUTE_RACK, which
 * executors send when they register; or YARN's topology.
 */
public final class ExecutorRacks {
  private static final Logger LOG = LoggerFactory.getLogger(ExecutorRacks.class);
  private static final String ATTRIBUTE = "RACK"; // without the prefix, which Spark strips
  private static final String ENV_PREFIX = "env:";

  /** The rack that an executor reads from its own environment. */
  record ReportedRack(String executor, String rack) implements Serializable {}

  /** The rack of one task's reader, and the bytes that it received over the network. */
  record TaskTraffic(String rack, Map<Integer, Long> bytesByBroker) implements Serializable {}

  private final RackFile file; // null without assignor.rackFile
  private final String environmentVariable; // null without assignor.rack
  private final ReportAccumulator<ReportedRack> reports = new ReportAccumulator<>();
  private final Map<String, String> reportedRackByExecutor = new HashMap<>();
  private boolean hasWarned;

  ExecutorRacks(SparkContext context, String rackOption, String rackFile) throws PlannerException {
    this.file = rackFile == null ? null : new RackFile(rackFile);
    environmentVariable = rackOption == null ? null : rackOption.substring(ENV_PREFIX.length());
    context.register(reports);
  }

  /** Returns what readers need to find their rack and to report traffic; it is sent with a plan. */
  ReaderRacks toReaderRacks(List<Executor> executors, ReportAccumulator<TaskTraffic> traffic) {
    return new ReaderRacks(environmentVariable, reports, traffic, executors);
  }

  /** Stores the racks that executors reported, and reads the rack file again if it has changed. */
  void update() {
    reports.drain().forEach(report -> reportedRackByExecutor.put(report.executor(), report.rack()));
    if (file != null) {
      file.reloadIfChanged();
    }
  }

  /** Removes the racks of executors that are gone. */
  void retain(Set<String> liveExecutorIds) {
    reportedRackByExecutor.keySet().retainAll(liveExecutorIds);
  }

  /** Returns an executor's rack, or null if it is unknown; the first failure is logged. */
  String findRack(ExecutorSummary executor, String host, TaskScheduler scheduler) {
    try {
      return findRackOrThrow(executor, host, scheduler);
    } catch (Exception | LinkageError e) { // Scala methods do not declare exceptions
      if (!hasWarned) {
        LOG.warn(
            "assignor-bridge could not find the rack of executor {}, so it counts as near to all"
                + " partitions (logged once): {}",
            executor.id(), e.toString());
        hasWarned = true;
      }
      return null;
    }
  }

  private String findRackOrThrow(ExecutorSummary executor, String host, TaskScheduler scheduler) {
    String rack = file == null ? null : file.findRack(host);
    if (rack == null) {
      rack = reportedRackByExecutor.get(executor.id());
    }
    if (rack == null) {
      rack = stripToNull(executor.attributes().getOrElse(ATTRIBUTE, () -> null));
    }
    return rack == null ? findYarnRack(scheduler, host) : rack;
  }

  /** Returns YARN's rack of a host without its leading slash; null if unknown or YARN's default. */
  static String findYarnRack(TaskScheduler scheduler, String host) {
    if (scheduler instanceof TaskSchedulerImpl schedulerImpl) {
      Option<String> rack = schedulerImpl.getRackForHost(host);
      if (rack.isDefined() && !rack.equals(schedulerImpl.defaultRackValue())) {
        return stripToNull(rack.get().replaceFirst("^/", ""));
      }
    }
    return null;
  }

  /** Returns the stripped name; null if it is null or blank, like an empty environment variable. */
  static String stripToNull(String rack) {
    return rack == null || rack.isBlank() ? null : rack.strip();
  }

  /**
   * The racks in the form that executors use. A reader's rack comes from the driver, or else from
   * the executor's environment. Executors report to the driver the bytes that readers received, and
   * the rack in their variable NAME (`assignor.rack=env:NAME`) if the driver has none or another.
   */
  public static final class ReaderRacks implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final String ATTRIBUTE_VARIABLE = "SPARK_EXECUTOR_ATTRIBUTE_RACK";

    private final String environmentVariable; // null without assignor.rack
    private final HashMap<String, String> rackByExecutor;
    @SuppressWarnings("serial") // accumulators are serializable
    private final ReportAccumulator<ReportedRack> reports;
    @SuppressWarnings("serial") // accumulators are serializable
    private final ReportAccumulator<TaskTraffic> traffic;

    public ReaderRacks(
        String environmentVariable,
        ReportAccumulator<ReportedRack> reports,
        ReportAccumulator<TaskTraffic> traffic,
        Iterable<Executor> executors) {
      this.environmentVariable = environmentVariable;
      this.reports = reports;
      this.traffic = traffic;
      rackByExecutor = new HashMap<>();
      executors.forEach(e -> rackByExecutor.put(e.id(), e.rack()));
    }

    /** Returns the executor's rack, or null; reports the environment's if the driver's differs. */
    public String findRack(String executor) {
      String driverRack = rackByExecutor.get(executor);
      String environmentRack =
          environmentVariable == null ? null : stripToNull(System.getenv(environmentVariable));
      if (environmentRack != null && !environmentRack.equals(driverRack)) {
        reports.add(new ReportedRack(executor, environmentRack));
      }
      if (driverRack != null) {
        return driverRack;
      }
      return environmentRack != null
          ? environmentRack
          : stripToNull(System.getenv(ATTRIBUTE_VARIABLE));
    }

    /** Reports the bytes that a reader in this rack received over the network, by broker id. */
    public void addReceived(String rack, Map<Integer, Long> bytesByBroker) {
      traffic.add(new TaskTraffic(rack, bytesByBroker));
    }
  }

  /**
   * The rack of each host, from a file on the driver (`assignor.rackFile`) with one `HOST=RACK` per
   * line, the format of Spark's FileBasedTopologyMapper. White space can also separate host and
   * rack, as in Hadoop's TableMapping. A changed file is read again.
   */
  static final class RackFile {
    private static final int MAX_LINE_CHARS = 100;

    private final Path file;
    private Map<String, String> rackByHost;
    private FileTime lastModifiedTime; // modification time when last read
    private String lastProblem;

    RackFile(String fileName) throws PlannerException {
      try {
        file = Path.of(fileName);
      } catch (InvalidPathException e) { // such as a character outside the driver's locale
        String problem = "option 'assignor.rackFile' is not a path on this driver: " + e.getMessage();
        throw new PlannerException(problem, true, e);
      }
      try {
        lastModifiedTime = Files.getLastModifiedTime(file);
        rackByHost = readRacks();
      } catch (IOException e) {
        throw new PlannerException(describe(e), true, e);
      }
    }

    /** Returns the rack of a host, or null if it is not in the file. */
    String findRack(String host) {
      return rackByHost.get(host);
    }

    /** Reads a changed file again; on failure, keeps the racks, and warns once per problem. */
    void reloadIfChanged() {
      try {
        FileTime modifiedTime = Files.getLastModifiedTime(file);
        if (!modifiedTime.equals(lastModifiedTime)) {
          rackByHost = readRacks();
          lastModifiedTime = modifiedTime;
          lastProblem = null;
        }
      } catch (IOException e) {
        String problem = describe(e);
        if (!problem.equals(lastProblem)) { // reading is retried: the file may be half written
          LOG.warn("assignor-bridge keeps the previous racks (the query continues): {}", problem);
        }
        lastProblem = problem;
      }
    }

    private String describe(IOException e) {
      String reason =
          e instanceof NoSuchFileException
              ? "there is no such file on the driver"
              : e instanceof BrokenLineException ? e.getMessage() : "it cannot be read (" + e + ")";
      return "option 'assignor.rackFile' is '" + file + "': " + reason + "; expected one line HOST=RACK"
          + " for each host with executors";
    }

    private Map<String, String> readRacks() throws IOException {
      Map<String, String> newRackByHost = new HashMap<>();
      List<String> lines = Files.readAllLines(file);
      for (int i = 0; i < lines.size(); i++) {
        Properties entry = new Properties();
        try {
          entry.load(new StringReader(lines.get(i)));
        } catch (IllegalArgumentException e) {
          throw new BrokenLineException(i, lines.get(i), "has a malformed Unicode escape");
        }
        for (String host : entry.stringPropertyNames()) { // none in an empty line or a comment
          String rack = entry.getProperty(host).strip();
          if (host.isEmpty() || rack.isEmpty()) {
            throw new BrokenLineException(i, lines.get(i), host.isEmpty() ? "has no host" : "has no rack");
          }
          if (rack.contains("#")) {
            throw new BrokenLineException(i, lines.get(i), "has a '#' after the rack: put the comment on its own line");
          }
          if (host.startsWith("[") && !host.endsWith("]")) {
            throw new BrokenLineException(i, lines.get(i), "has a colon in the host: write it as \\:");
          }
          String earlierRack = newRackByHost.putIfAbsent(host, rack);
          if (earlierRack != null && !earlierRack.equals(rack)) {
            throw new BrokenLineException(i, lines.get(i), "contradicts an earlier one, with rack " + earlierRack);
          }
        }
      }
      return newRackByHost;
    }

    private static final class BrokenLineException extends IOException {
      private static final long serialVersionUID = 1L;

      BrokenLineException(int index, String line, String problem) {
        super("line " + (index + 1) + " (" + PlannerException.shorten(line, MAX_LINE_CHARS) + ") " + problem);
      }
    }
  }
}
