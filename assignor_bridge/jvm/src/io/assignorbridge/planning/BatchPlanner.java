package io.assignorbridge.planning;

import io.assignorbridge.admission.LimitedBatch;
import io.assignorbridge.admission.RecordTimes;
import io.assignorbridge.cluster.ExecutorList;
import io.assignorbridge.cluster.ExecutorRacks;
import io.assignorbridge.kafka.SourceOffsets;
import io.assignorbridge.model.Executor;
import io.assignorbridge.model.JarVersion;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.model.ReadReport;
import io.assignorbridge.model.ReportAccumulator;
import io.assignorbridge.settings.AssignorOptions;
import io.assignorbridge.settings.KillSwitch;
import io.assignorbridge.state.StateFiles;
import io.assignorbridge.worker.Columns;
import io.assignorbridge.worker.Messages;
import io.assignorbridge.worker.SharedPlanner;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Turns the ranges of each micro-batch into the planner's tasks, once per (start, end), and the
 * ranges that wait into a batch's end. Here is only the order of calls: {@link StreamResources} has
 * what the options ask for, {@link Fallback} decides what happens without a good answer.
 */
public final class BatchPlanner implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(BatchPlanner.class);

  /** The last batch and its tasks. */
  private record TasksOfBatch(Offset start, Offset end, InputPartition[] tasks) {
    boolean areOf(Offset otherStart, Offset otherEnd) {
      return start.equals(otherStart) && end.equals(otherEnd);
    }
  }

  private final SparkContext context;
  private final AssignorOptions written;
  private final KillSwitch killSwitch;
  private final StateFiles files;
  private final StreamIdentity stream = new StreamIdentity();
  private final PlanFigures figures = new PlanFigures();
  private final ReportAccumulator<ReadReport> reports = new ReportAccumulator<>();
  private final BatchAdmission admission = new BatchAdmission();
  private final Fallback planFallback;
  private final Fallback admissionFallback;

  private SharedPlanner.Client planner; // null before it is needed
  private StreamResources resources; // null until a planner has validated the options
  private ExecutorRacks.ForReaders racks; // null before the first plan
  private TasksOfBatch last; // null before the first batch
  private String state;
  private boolean stateIsRead;
  private long plans;
  private long lastPlanNanos;

  public BatchPlanner(
      SparkSession session, AssignorOptions options, KillSwitch killSwitch, String metadataPath) {
    context = session.sparkContext();
    written = options;
    this.killSwitch = killSwitch;
    files = new StateFiles(metadataPath, session.sessionState().newHadoopConf());
    planFallback = new Fallback(context, "plan", "mapping is used");
    admissionFallback = new Fallback(context, "limit", "limits hold");
    context.register(reports);
  }

  /** Has the options checked, so that a wrong one fails the query at once. */
  public synchronized void start() {
    try {
      if (killSwitch.findOffReasonAtStart() == null) {
        connect();
      }
    } catch (Exception | LinkageError e) {
      PlannerException failure = failure(e);
      if (failure.misuse) {
        throw new IllegalArgumentException(failure.getMessage(), failure);
      }
      planFallback.failed(failure, failsQuery());
    }
  }

  /** The tasks of a micro-batch; the same array when Spark asks again for the same one. */
  public synchronized InputPartition[] assign(Offset start, Offset end, InputPartition[] ranges) {
    if (last == null || !last.areOf(start, end)) {
      last = new TasksOfBatch(start, end, planOrFallBack(end, ranges, noted(end, ranges)));
    }
    return last.tasks();
  }

  public synchronized PartitionReaderFactory readerFactory(PartitionReaderFactory base) {
    // Without options there is no plan yet, and so no task for one of our readers.
    boolean shared = resources == null || resources.options().reader().equals("shared");
    return new AssignedReaderFactory(base, shared, reports, racks);
  }

  public synchronized Map<String, String> metrics() {
    readReports();
    Map<String, String> all = figures.metrics(System.currentTimeMillis());
    if (resources != null) {
      all.putAll(resources.metrics());
    }
    return all;
  }

  /** All batches so far are completed, and these are their end offsets; idle triggers say so too. */
  public synchronized void completed(Offset end) {
    admission.completed(end);
    if (resources != null) {
      files.save(state, resources.stateVersion());
      resources.completed(end);
    }
  }

  /** The end of a batch that could reach up to `latest`; null when it is left to Spark's limits. */
  public synchronized Offset admit(Supplier<LimitedBatch> candidate, Offset latest, boolean fixedEnd) {
    if (killSwitch.findOffReason() != null) {
      return null;
    }
    if (admissionFallback.pause()) {
      figures.notAdmitted(admissionFallback.whyPaused());
      return null;
    }
    try {
      LimitedBatch batch = candidate.get();
      if (batch.waiting().isEmpty()) {
        return latest;
      }
      connect();
      if (!resources.admits()) { // the options that seem to limit batches limit none
        return null;
      }
      readState(latest);
      Offset end = ask(batch, fixedEnd);
      admissionFallback.succeeded();
      return end;
    } catch (Exception | LinkageError e) {
      PlannerException failure = failure(e);
      admissionFallback.failed(failure, failsQuery());
      figures.notAdmitted(failure.getMessage());
      return null;
    }
  }

  @Override
  public synchronized void close() {
    if (resources != null) {
      resources.close();
    }
    files.close();
    stream.end();
    leavePlanner();
  }

  /**
   * What the batch must read, whoever plans it: that offsets went back must be seen under Spark's
   * mapping, too. Null on another Spark, where planning fails by it and says so.
   */
  private TaskBuilder noted(Offset end, InputPartition[] ranges) {
    try {
      TaskBuilder builder = new TaskBuilder(ranges);
      Set<TopicPartition> live = SourceOffsets.partitionsOf(end);
      stream.note(builder.requested(), live);
      if (resources != null) {
        resources.keep(live);
      }
      return builder;
    } catch (RuntimeException | LinkageError e) {
      LOG.debug("the offsets of a batch were not noted", e);
      return null;
    }
  }

  private InputPartition[] planOrFallBack(
      Offset end, InputPartition[] ranges, TaskBuilder noted) {
    if (resources != null) {
      resources.zones().beginBatch();
    }
    String off = killSwitch.findOffReason();
    if (off != null) {
      leavePlanner();
      admission.forget(); // this batch says nothing about ours
      planFallback.succeeded();
      admissionFallback.succeeded();
      figures.switchedOff(off, ranges.length);
      return ranges;
    }
    if (planFallback.pause()) {
      figures.fellBack(planFallback.whyPaused(), ranges.length);
      return ranges;
    }
    try {
      readState(end);
      InputPartition[] tasks = plan(end, noted == null ? new TaskBuilder(ranges) : noted);
      planFallback.succeeded();
      return tasks;
    } catch (Exception | LinkageError e) { // Scala's methods throw checked exceptions unannounced
      PlannerException failure = failure(e);
      planFallback.failed(failure, failsQuery());
      figures.fellBack(failure.getMessage(), ranges.length);
      return ranges;
    }
  }

  private InputPartition[] plan(Offset end, TaskBuilder builder)
      throws PlannerException, InterruptedException {
    long startedNanos = System.nanoTime();
    readReports();
    SharedPlanner.Client planner = connect();
    List<Executor> executors = resources.zones().executors();
    Double sinceLastPlan = lastPlanNanos == 0 ? null : (startedNanos - lastPlanNanos) / 1e9;
    lastPlanNanos = startedNanos;
    Messages.PlanBatch request =
        new Messages.PlanBatch(
            ExecutorList.parallelism(context),
            executors,
            Columns.Ranges.of(builder.requested()),
            Columns.Reports.of(figures.takeObserved()),
            state,
            ExecutorList.allocation(context, sinceLastPlan),
            resources.zones().racksOf(executors, builder.requested()),
            planner.stream(),
            countPartitions(SourceOffsets.partitionsOf(end)),
            null);
    String answer = planner.ask(Messages.write(request), resources.options().planTimeoutMs());
    Messages.Planned plan = Messages.read(answer, Messages.Planned.class);
    InputPartition[] tasks =
        builder.build(plan.tasks().unpack(), executors, stream.name(), plans + 1);
    if (resources.log() != null) {
      resources
          .log()
          .append(
              context.getLocalProperty("streaming.sql.batchId"),
              Messages.write(request.with(written.valuesToLog())),
              answer,
              admission.loggedOf(end));
    }
    state = plan.state();
    racks = resources.zones().forReaders(executors);
    resources.zones().logAdvice(plan.metrics());
    plans++;
    long millis = (System.nanoTime() - startedNanos) / 1_000_000;
    figures.planned(plan, plans, tasks.length, millis);
    LOG.info("{} tasks by assignor '{}': {}", tasks.length, plan.assignor(), plan.metrics());
    plan.reasons().forEach(reason -> LOG.debug("{}", reason));
    return tasks;
  }

  private Offset ask(LimitedBatch batch, boolean fixedEnd)
      throws PlannerException, InterruptedException {
    long startedNanos = System.nanoTime();
    readReports();
    SharedPlanner.Client planner = connect();
    List<OffsetRange> waiting = batch.waiting();
    Columns.Ranges asked = Columns.Ranges.of(waiting);
    Messages.AdmitBatch request =
        new Messages.AdmitBatch(
            ExecutorList.parallelism(context),
            resources.zones().executors(),
            asked,
            Columns.Reports.of(figures.observed()),
            state,
            batch.maxRecords(),
            fixedEnd,
            admission.lastCompleted(),
            resources.timesOf(waiting),
            resources.retentionsOf(asked.topics()),
            planner.stream());
    BatchAdmission.Admission admitted =
        admission.ask(request, batch, startedNanos, planner, resources);
    figures.admitted(admitted.metrics());
    LOG.info("a batch is admitted: {}", admitted.metrics());
    return admitted.end();
  }

  /** Takes in what finished readers sent. */
  private void readReports() {
    List<ReadReport> read = reports.drain();
    figures.read(read);
    if (resources != null) {
      resources.read(read);
    }
  }

  /** How many partitions each topic has, by the highest number. */
  private static Map<String, Integer> countPartitions(Set<TopicPartition> live) {
    Map<String, Integer> counts = new TreeMap<>();
    live.forEach(p -> counts.merge(p.topic(), p.partition() + 1, Math::max));
    return counts;
  }

  /** Before the first plan: takes the newest stored state that the planner can use. */
  private void readState(Offset end) throws PlannerException, InterruptedException {
    if (!stateIsRead) {
      SharedPlanner.Client planner = connect();
      Collection<String> topics = Messages.topicsOf(end.json());
      long limitMs = resources.options().planTimeoutMs();
      state =
          files.restore(
              resources.stateVersion(),
              text -> {
                String request = Messages.write(new Messages.Restore(text, topics));
                String answer = planner.ask(request, limitMs);
                return Messages.read(answer, Messages.Restored.class).why();
              });
      stateIsRead = true;
    }
  }

  /** Returns the planner, which has validated the options; from then on there are resources. */
  private SharedPlanner.Client connect() throws PlannerException, InterruptedException {
    if (planner == null) {
      written.checkSpelling();
      planner = new SharedPlanner.Client(written);
    }
    Messages.Validated valid = planner.validated();
    JarVersion.checkPackage(valid.packageVersion(), written.interpreter().command());
    if (resources == null) {
      resources = StreamResources.of(context, valid, written.kafka());
    }
    return planner;
  }

  private void leavePlanner() {
    if (planner != null) {
      planner.close();
      planner = null;
    }
  }

  private boolean failsQuery() {
    return resources == null
        ? written.failOnError()
        : resources.options().onError().equals("fail");
  }

  /** Has the planner begin again with this stream; returns why there is no answer. */
  private PlannerException failure(Throwable e) {
    if (planner != null && !(e instanceof RecordTimes.NoTimesException)) {
      planner.forget();
    }
    return Fallback.reasonOf(e, context.version());
  }
}
