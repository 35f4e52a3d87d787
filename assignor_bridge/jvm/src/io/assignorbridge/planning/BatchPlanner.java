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
 * Requests each micro-batch's plan from the planner and, if the options limit batches, its end;
 * saves the planner's state. A batch that Spark requests twice is planned once. {@link
 * StreamResources} holds what the options require, and {@link Fallback} handles failures.
 */
public final class BatchPlanner implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(BatchPlanner.class);

  private record PlannedBatch(Offset start, Offset end, InputPartition[] tasks) {
    boolean matches(Offset otherStart, Offset otherEnd) {
      return start.equals(otherStart) && end.equals(otherEnd);
    }
  }

  private final SparkContext context;
  private final AssignorOptions userOptions;
  private final KillSwitch killSwitch;
  private final StateFiles stateFiles;
  private final StreamIdentity stream = new StreamIdentity();
  private final PlanFigures figures = new PlanFigures();
  private final ReportAccumulator<ReadReport> reports = new ReportAccumulator<>();
  private final BatchAdmission admission = new BatchAdmission();
  private final Fallback planFallback;
  private final Fallback admissionFallback;

  private SharedPlanner.Client planner; // null until needed, and while switched off
  private StreamResources resources; // null until a planner has validated the options
  private ExecutorRacks.ReaderRacks racks; // null before the first plan
  private PlannedBatch lastBatch; // null before the first batch
  private String state; // the planner's; null before the first plan if none was restored
  private boolean isStateRead;
  private long planCount;
  private long lastPlanNanos; // time of the last planning attempt; 0 before the first

  public BatchPlanner(
      SparkSession session, AssignorOptions options, KillSwitch killSwitch, String metadataPath) {
    context = session.sparkContext();
    userOptions = options;
    this.killSwitch = killSwitch;
    stateFiles = new StateFiles(metadataPath, session.sessionState().newHadoopConf());
    planFallback = new Fallback(context, "plan", "Spark's default assignment is used");
    admissionFallback = new Fallback(context, "limit", "Spark's own limits apply");
    context.register(reports);
  }

  /** Validates the options unless switched off, so that invalid ones fail the query at once. */
  public synchronized void start() {
    try {
      if (killSwitch.findOffReasonAtStart() == null) {
        connect();
      }
    } catch (Exception | LinkageError e) {
      PlannerException failure = toFailure(e);
      if (failure.misuse) {
        throw new IllegalArgumentException(failure.getMessage(), failure);
      }
      planFallback.handleFailure(failure, failsQuery());
    }
  }

  /** Returns the tasks of a micro-batch; the same array if Spark requests the same batch again. */
  public synchronized InputPartition[] assign(
      Offset start, Offset end, InputPartition[] sparkPartitions) {
    if (lastBatch == null || !lastBatch.matches(start, end)) {
      TaskBuilder builder = trackBatch(end, sparkPartitions);
      lastBatch = new PlannedBatch(start, end, planOrFallBack(end, sparkPartitions, builder));
    }
    return lastBatch.tasks();
  }

  public synchronized PartitionReaderFactory createReaderFactory(
      PartitionReaderFactory sparkReaders) {
    // Without resources, no task is planned, and the value has no effect.
    boolean usesSharedReader = resources == null || resources.options().reader().equals("shared");
    return new AssignedReaderFactory(sparkReaders, usesSharedReader, reports, racks);
  }

  public synchronized Map<String, String> metrics() {
    drainReports();
    Map<String, String> allMetrics = figures.metrics(System.currentTimeMillis());
    if (resources != null) {
      allMetrics.putAll(resources.metrics());
    }
    return allMetrics;
  }

  /** Saves the state and commits the offsets of completed batches; idle triggers call it, too. */
  public synchronized void complete(Offset end) {
    admission.complete(end);
    if (resources != null) {
      stateFiles.save(state, resources.stateVersion());
      resources.complete(end);
    }
  }

  /** Returns the next batch's end, at most `latestOffset`; null if Spark's own limits apply. */
  public synchronized Offset admit(
      Supplier<LimitedBatch> batchSupplier, Offset latestOffset, boolean hasFixedEnd) {
    if (killSwitch.findOffReason() != null) {
      return null;
    }
    if (admissionFallback.shouldSkipBatch()) {
      figures.setNotAdmitted(admissionFallback.describePause());
      return null;
    }
    try {
      LimitedBatch batch = batchSupplier.get();
      if (batch.unreadRanges().isEmpty()) {
        return latestOffset;
      }
      connect();
      if (!resources.limitsBatches()) { // the options have no effective limit
        return null;
      }
      restoreState(latestOffset);
      Offset end = requestEnd(batch, hasFixedEnd);
      admissionFallback.reset();
      return end;
    } catch (Exception | LinkageError e) {
      PlannerException failure = toFailure(e);
      admissionFallback.handleFailure(failure, failsQuery());
      figures.setNotAdmitted(failure.getMessage());
      return null;
    }
  }

  @Override
  public synchronized void close() {
    if (resources != null) {
      resources.close();
    }
    stateFiles.close();
    stream.end();
    closePlanner();
  }

  /**
   * Tracks the offsets of each batch, even if Spark plans it, to detect when they go back. Returns
   * the batch's task builder; null if this Spark is incompatible, which planning then reports.
   */
  private TaskBuilder trackBatch(Offset end, InputPartition[] sparkPartitions) {
    try {
      TaskBuilder builder = new TaskBuilder(sparkPartitions);
      Set<TopicPartition> livePartitions = SourceOffsets.partitionsOf(end);
      stream.startBatch(builder.requestedRanges(), livePartitions);
      if (resources != null) {
        resources.retain(livePartitions);
      }
      return builder;
    } catch (RuntimeException | LinkageError e) {
      LOG.debug("the offsets of a batch could not be tracked", e);
      return null;
    }
  }

  private InputPartition[] planOrFallBack(
      Offset end, InputPartition[] sparkPartitions, TaskBuilder trackedBuilder) {
    if (resources != null) {
      resources.zones().beginBatch();
    }
    String offReason = killSwitch.findOffReason();
    if (offReason != null) {
      closePlanner();
      admission.forget(); // so that its duration is not measured
      planFallback.reset();
      admissionFallback.reset();
      figures.setSwitchedOff(offReason, sparkPartitions.length);
      return sparkPartitions;
    }
    if (planFallback.shouldSkipBatch()) {
      figures.setFallback(planFallback.describePause(), sparkPartitions.length);
      return sparkPartitions;
    }
    try {
      restoreState(end);
      InputPartition[] tasks =
          plan(end, trackedBuilder == null ? new TaskBuilder(sparkPartitions) : trackedBuilder);
      planFallback.reset();
      return tasks;
    } catch (Exception | LinkageError e) { // Scala methods do not declare exceptions
      PlannerException failure = toFailure(e);
      planFallback.handleFailure(failure, failsQuery());
      figures.setFallback(failure.getMessage(), sparkPartitions.length);
      return sparkPartitions;
    }
  }

  private InputPartition[] plan(Offset end, TaskBuilder builder)
      throws PlannerException, InterruptedException {
    long startedNanos = System.nanoTime();
    drainReports();
    SharedPlanner.Client planner = connect();
    List<Executor> executors = resources.zones().listExecutors();
    Double secondsSinceLastPlan = lastPlanNanos == 0 ? null : (startedNanos - lastPlanNanos) / 1e9;
    lastPlanNanos = startedNanos;
    Messages.PlanBatch request =
        new Messages.PlanBatch(
            ExecutorList.getPlanningParallelism(context),
            executors,
            Columns.Ranges.of(builder.requestedRanges()),
            Columns.Reports.of(figures.takeReports()),
            state,
            ExecutorList.readAllocation(context, secondsSinceLastPlan),
            resources.zones().findRacks(executors, builder.requestedRanges()),
            planner.streamNumber(),
            countPartitions(SourceOffsets.partitionsOf(end)),
            null);
    long timeoutMs = resources.options().planTimeoutMs();
    String answer = planner.sendRequest(Messages.format(request), timeoutMs);
    Messages.Planned plan = Messages.parse(answer, Messages.Planned.class);
    InputPartition[] tasks =
        builder.build(plan.tasks().unpack(), executors, stream.name(), planCount + 1);
    if (resources.planLog() != null) {
      resources
          .planLog()
          .append(
              context.getLocalProperty("streaming.sql.batchId"),
              Messages.format(request.withOptions(userOptions.valuesToLog())),
              answer,
              admission.logEntryOf(end));
    }
    state = plan.state();
    racks = resources.zones().toReaderRacks(executors);
    resources.zones().logAdvice(plan.metrics());
    planCount++;
    long planMillis = (System.nanoTime() - startedNanos) / 1_000_000;
    figures.setPlan(plan, planCount, tasks.length, planMillis);
    LOG.info("assignor '{}' planned tasks: {}, {}", plan.assignor(), tasks.length, plan.metrics());
    plan.reasons().forEach(reason -> LOG.debug("{}", reason));
    return tasks;
  }

  private Offset requestEnd(LimitedBatch batch, boolean hasFixedEnd)
      throws PlannerException, InterruptedException {
    long startedNanos = System.nanoTime();
    drainReports();
    SharedPlanner.Client planner = connect();
    List<OffsetRange> unreadRanges = batch.unreadRanges();
    Columns.Ranges ranges = Columns.Ranges.of(unreadRanges);
    Messages.AdmitBatch request =
        new Messages.AdmitBatch(
            ExecutorList.getPlanningParallelism(context),
            resources.zones().listExecutors(),
            ranges,
            Columns.Reports.of(figures.reports()),
            state,
            batch.maxOffsets(),
            hasFixedEnd,
            admission.lastCompletedBatch(),
            resources.findTimes(unreadRanges),
            resources.findRetentions(ranges.topics()),
            planner.streamNumber());
    BatchAdmission.Admission newAdmission =
        admission.admit(request, batch, startedNanos, planner, resources);
    figures.setAdmitted(newAdmission.metrics());
    LOG.info("admitted a batch: {}", newAdmission.metrics());
    return newAdmission.end();
  }

  /** Adds new reader reports to the metrics and the resources. */
  private void drainReports() {
    List<ReadReport> newReports = reports.drain();
    figures.addReports(newReports);
    if (resources != null) {
      resources.addReports(newReports);
    }
  }

  /** Returns each topic's number of partitions, derived from its highest partition number. */
  private static Map<String, Integer> countPartitions(Set<TopicPartition> livePartitions) {
    Map<String, Integer> countByTopic = new TreeMap<>();
    livePartitions.forEach(p -> countByTopic.merge(p.topic(), p.partition() + 1, Math::max));
    return countByTopic;
  }

  /** Before the first plan or limit, restores the newest stored state that the planner can use. */
  private void restoreState(Offset end) throws PlannerException, InterruptedException {
    if (!isStateRead) {
      SharedPlanner.Client planner = connect();
      Collection<String> topics = Messages.parseTopics(end.json());
      long timeoutMs = resources.options().planTimeoutMs();
      state =
          stateFiles.restore(
              resources.stateVersion(),
              text -> {
                String request = Messages.format(new Messages.Restore(text, topics));
                String answer = planner.sendRequest(request, timeoutMs);
                return Messages.parse(answer, Messages.Restored.class).why();
              });
      isStateRead = true;
    }
  }

  /** Returns the planner with validated options; the first call also creates the resources. */
  private SharedPlanner.Client connect() throws PlannerException, InterruptedException {
    if (planner == null) {
      userOptions.rejectAmbiguousSettings();
      planner = new SharedPlanner.Client(userOptions);
    }
    Messages.Validated validation = planner.validate();
    JarVersion.checkPackage(validation.packageVersion(), userOptions.interpreter().command());
    if (resources == null) {
      resources = StreamResources.of(context, validation, userOptions.kafkaSettings());
    }
    return planner;
  }

  private void closePlanner() {
    if (planner != null) {
      planner.close();
      planner = null;
    }
  }

  private boolean failsQuery() {
    return resources == null
        ? userOptions.failOnError()
        : resources.options().onError().equals("fail");
  }

  /** Converts an error, or rethrows an interrupt. Resets the planner unless only Kafka failed. */
  private PlannerException toFailure(Throwable e) {
    if (planner != null && !(e instanceof RecordTimes.NoTimesException)) {
      planner.forget();
    }
    return Fallback.toPlannerException(e, context.version());
  }
}
