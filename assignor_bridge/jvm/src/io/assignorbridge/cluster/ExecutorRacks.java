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
 * Where executors are, by the first that says so: the file of hosts (`assignor.rackFile`), the
 * environment variable that `assignor.rack` names, SPARK_EXECUTOR_ATTRIBUTE_RACK, which executors send
 * when they register, or YARN's topology. Null: unknown.
 */
public final class ExecutorRacks {
  private static final Logger LOG = LoggerFactory.getLogger(ExecutorRacks.class);
  private static final String ATTRIBUTE = "RACK"; // Spark cuts the prefix off the variable's name
  private static final String ENV = "env:";

  /** The rack that an executor reads from its own environment. */
  record OwnRack(String executor, String rack) implements Serializable {}

  /** What one task received over the network, by id of broker. */
  record Received(String rack, Map<Integer, Long> bytes) implements Serializable {}

  private final RackFile file; // null without the option
  private final String variable; // null without the option
  private final ReportAccumulator<OwnRack> reports = new ReportAccumulator<>();
  private final Map<String, String> reported = new HashMap<>(); // by id of executor
  private boolean warned;

  ExecutorRacks(SparkContext context, String source, String file) throws PlannerException {
    this.file = file == null ? null : new RackFile(file);
    variable = source == null ? null : source.substring(ENV.length());
    context.register(reports);
  }

  /** What goes to the executors with a plan. */
  ForReaders forReaders(List<Executor> executors, ReportAccumulator<Received> received) {
    return new ForReaders(variable, reports, received, executors);
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
      rack = nameOrNull(executor.attributes().getOrElse(ATTRIBUTE, () -> null));
    }
    return rack == null ? ofYarn(scheduler, host) : rack;
  }

  /** Without a topology, YARN has all hosts in one rack; names begin with a slash there, not in Kafka. */
  static String ofYarn(TaskScheduler scheduler, String host) {
    if (scheduler instanceof TaskSchedulerImpl own) {
      Option<String> rack = own.getRackForHost(host);
      if (rack.isDefined() && !rack.equals(own.defaultRackValue())) {
        return nameOrNull(rack.get().replaceFirst("^/", ""));
      }
    }
    return null;
  }

  /** Null for a name that is blank, as of a variable that is set to nothing. */
  static String nameOrNull(String rack) {
    return rack == null || rack.isBlank() ? null : rack.strip();
  }

  /**
   * Returns the rack of a reader, on the executor: what the driver knows, else the environment. A
   * variable that the driver cannot see (`assignor.rack=env:NAME`) is reported to it, and so are the
   * bytes that readers received.
   */
  public static final class ForReaders implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final String VARIABLE = "SPARK_EXECUTOR_ATTRIBUTE_RACK";

    private final String variable; // null where the driver sees all that executors know
    private final HashMap<String, String> byExecutor;

    @SuppressWarnings("serial") // accumulators are serializable
    private final ReportAccumulator<OwnRack> reports;

    @SuppressWarnings("serial") // the same
    private final ReportAccumulator<Received> received;

    public ForReaders(
        String variable,
        ReportAccumulator<OwnRack> reports,
        ReportAccumulator<Received> received,
        Iterable<Executor> executors) {
      this.variable = variable;
      this.reports = reports;
      this.received = received;
      byExecutor = new HashMap<>();
      executors.forEach(e -> byExecutor.put(e.id(), e.rack()));
    }

    /** Where the executor of this id is, asked on it; null: unknown. */
    public String at(String executor) {
      String known = byExecutor.get(executor);
      String own = variable == null ? null : nameOrNull(System.getenv(variable));
      if (own != null && !own.equals(known)) {
        reports.add(new OwnRack(executor, own));
      }
      if (known != null) {
        return known;
      }
      return own == null ? nameOrNull(System.getenv(VARIABLE)) : own;
    }

    /** A reader in this rack has received bytes, by id of broker. */
    public void received(String rack, Map<Integer, Long> bytes) {
      received.add(new Received(rack, bytes));
    }
  }

  /**
   * The racks of hosts in a file on the driver (`assignor.rackFile`), one `HOST=RACK` a line, as Spark's
   * FileBasedTopologyMapper reads it; white space may separate them, as in Hadoop's TableMapping. A file
   * that has changed is read again.
   */
  static final class RackFile {
    private static final int MOST_OF_LINE = 100;

    private final Path file;
    private Map<String, String> racks;
    private FileTime read;
    private String lastFault;

    RackFile(String name) throws PlannerException {
      try {
        file = Path.of(name);
      } catch (InvalidPathException e) { // such as a letter that the driver's locale does not have
        String what = "option 'assignor.rackFile' is no path on this driver: " + e.getMessage();
        throw new PlannerException(what, true, e);
      }
      try {
        read = Files.getLastModifiedTime(file);
        racks = racks();
      } catch (IOException e) {
        throw new PlannerException(fault(e), true, e);
      }
    }

    /** Null for a host that is not in the file. */
    String of(String host) {
      return racks.get(host);
    }

    /** Reads it again if it has changed; what is broken then leaves all as it was. */
    void update() {
      try {
        FileTime changed = Files.getLastModifiedTime(file);
        if (!changed.equals(read)) {
          racks = racks();
          read = changed;
          lastFault = null;
        }
      } catch (IOException e) {
        String fault = fault(e);
        if (!fault.equals(lastFault)) { // a broken file may be in the middle of being written
          LOG.warn("assignor-bridge keeps the racks that it read before (the query goes on): {}", fault);
        }
        lastFault = fault;
      }
    }

    private String fault(IOException e) {
      String why =
          e instanceof NoSuchFileException
              ? "there is no such file on the driver"
              : e instanceof BrokenLine ? e.getMessage() : "it cannot be read (" + e + ")";
      return "option 'assignor.rackFile' is '" + file + "': " + why + "; a line HOST=RACK for each host of"
          + " executors is expected";
    }

    private Map<String, String> racks() throws IOException {
      Map<String, String> all = new HashMap<>();
      List<String> lines = Files.readAllLines(file);
      for (int i = 0; i < lines.size(); i++) {
        Properties entry = new Properties();
        try {
          entry.load(new StringReader(lines.get(i)));
        } catch (IllegalArgumentException e) { // such as \\u without a number
          throw new BrokenLine(i, lines.get(i), "is broken");
        }
        for (String host : entry.stringPropertyNames()) { // none in an empty line or a comment
          String rack = entry.getProperty(host).strip();
          if (host.isEmpty() || rack.isEmpty()) {
            throw new BrokenLine(i, lines.get(i), host.isEmpty() ? "has no host" : "has no rack");
          }
          if (rack.contains("#")) {
            throw new BrokenLine(i, lines.get(i), "has a # behind the rack: comments have their own lines");
          }
          if (host.startsWith("[") && !host.endsWith("]")) {
            throw new BrokenLine(i, lines.get(i), "has a colon in the host: write it as \\:");
          }
          String other = all.putIfAbsent(host, rack);
          if (other != null && !other.equals(rack)) {
            throw new BrokenLine(i, lines.get(i), "contradicts an earlier one, with rack " + other);
          }
        }
      }
      return all;
    }

    private static final class BrokenLine extends IOException {
      private static final long serialVersionUID = 1L;

      BrokenLine(int index, String line, String what) {
        super("line " + (index + 1) + " (" + PlannerException.shorten(line, MOST_OF_LINE) + ") " + what);
      }
    }
  }
}
