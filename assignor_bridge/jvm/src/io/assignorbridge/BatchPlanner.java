package io.assignorbridge;

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
import org.apache.spark.sql.kafka010.KafkaSourceOffset;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Turns the ranges of one micro-batch into the planner's tasks, once per (start, end): asks the
 * Python process and has the answer verified. Without a good answer it hands Spark its own mapping
 * back, or fails the query (`assignor.onError=fail`).
 */
final class BatchPlanner implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(BatchPlanner.class);
  private static final int LONGEST_PAUSE_BATCHES = 64;
  private static final int MOST_LOOK_UPS = 3; // of a batch; two are enough for the planner

  private record Batch(Offset start, Offset end) {}

  /** With what the plan log has to say of it; null without a log. */
  private record AdmittedBatch(Offset end, long records, long startedNanos, String logged) {}

  /** Failures in a row: after each, twice as many batches pass until the planner is asked again. */
  private static final class Pauses {
    private int failures;
    private int batches;
    private String last;

    boolean pause() {
      return batches > 0 && batches-- > 0;
    }

    void succeeded() {
      failures = 0;
      batches = 0;
      last = null;
    }

    /** Whether it is another failure than the last one: the same is not told twice in a row. */
    boolean failed(String why) {
      failures++;
      batches = Math.min(LONGEST_PAUSE_BATCHES, 1 << Math.min(20, failures - 1)) - 1;
      boolean news = !why.equals(last);
      last = why;
      return news;
    }

    @Override
    public String toString() {
      return "paused after " + failures + " failures in a row";
    }
  }

  private final SparkContext context;
  private final AssignorOptions written;
  private final KillSwitch killSwitch;
  private final StateFiles files;
  private final StreamIdentity stream = new StreamIdentity();
  private final PlanFigures figures = new PlanFigures();
  private final Reports<ReadReport> reports = new Reports<>();

  private SharedPlanner.Client planner; // null before it is needed
  private Messages.EffectiveOptions options; // null until a planner has validated them
  private int stateVersion;
  private GroupCommits commits; // null without assignor.commitGroup
  private Retentions retentions; // null without assignor.fairness=deadline
  private RecordTimes times; // null where the planner needs none
  private Zones zones; // null until a planner has validated the options
  private ExecutorRacks.ForReaders readerRacks; // null before the first plan
  private PlanLog log; // null without assignor.planLog
  private Batch lastBatch;
  private InputPartition[] lastTasks;
  private String consumers; // the name of those that executors keep, as of the last batch
  private String state;
  private boolean stateIsRead;
  private long plans;
  private long lastPlanNanos;
  private final Pauses plansPaused = new Pauses();
  private final Pauses admissionsPaused = new Pauses();
  private boolean admits;
  private AdmittedBatch admitted;
  private Messages.CompletedBatch lastCompleted;

  BatchPlanner(
      SparkSession session, AssignorOptions options, KillSwitch killSwitch, String metadataPath) {
    context = session.sparkContext();
    written = options;
    this.killSwitch = killSwitch;
    files = new StateFiles(metadataPath, session.sessionState().newHadoopConf());
    context.register(reports);
  }

  /** Has the options checked, so that a wrong one fails the query at once. */
  synchronized void start() {
    try {
      if (killSwitch.whyOffAtStart() == null) {
        running();
      }
    } catch (Exception | LinkageError e) {
      PlannerException failure = failure(e);
      if (failure.misuse) {
        throw new IllegalArgumentException(failure.getMessage(), failure);
      }
      fallBack(failure, plansPaused, "plan", "mapping is used");
    }
  }

  /** The tasks of a micro-batch; the same array when Spark asks again for the same one. */
  synchronized InputPartition[] assign(Offset start, Offset end, InputPartition[] ranges) {
    Batch batch = new Batch(start, end);
    if (!batch.equals(lastBatch)) {
      lastTasks = planOrFallBack(end, ranges, noted(end, ranges));
      lastBatch = batch;
    }
    return lastTasks;
  }

  /**
   * What the batch must read, whoever plans it: that offsets went back must be seen under Spark's
   * mapping, too. Null on another Spark, where planning fails by it and says so.
   */
  private TaskBuilder noted(Offset end, InputPartition[] ranges) {
    try {
      TaskBuilder builder = new TaskBuilder(ranges);
      Set<TopicPartition> live = partitionsOf(end);
      consumers = stream.of(builder.requested(), live);
      if (times != null) {
        times.keep(live);
      }
      return builder;
    } catch (RuntimeException | LinkageError e) {
      LOG.debug("the offsets of a batch were not noted", e);
      return null;
    }
  }

  private static Set<TopicPartition> partitionsOf(Offset end) {
    return CollectionConverters.asJava(KafkaSourceOffset.apply(end).partitionToOffsets()).keySet();
  }

  synchronized PartitionReaderFactory readerFactory(PartitionReaderFactory base) {
    // Without options there is no plan yet, and so no task for one of our readers.
    boolean shared = options == null || options.reader().equals("shared");
    return new AssignedReaderFactory(base, shared, reports, readerRacks);
  }

  synchronized Map<String, String> metrics() {
    readReports();
    Map<String, String> all = figures.metrics(System.currentTimeMillis());
    if (zones != null) {
      all.putAll(zones.metrics());
    }
    if (commits != null) {
      all.putAll(commits.metrics());
    }
    return all;
  }

  /** All batches so far are completed, and these are their end offsets; idle triggers say so too. */
  synchronized void completed(Offset end) {
    if (admitted != null && admitted.end().equals(KafkaSourceOffset.apply(end))) {
      double seconds = (System.nanoTime() - admitted.startedNanos()) / 1e9;
      lastCompleted = new Messages.CompletedBatch(admitted.records(), seconds);
      admitted = null;
    }
    if (options != null) {
      files.save(state, stateVersion);
    }
    if (commits != null) {
      commits.completed(end);
    }
  }

  /** The end of a batch that could reach up to `latest`; null when it is left to Spark's limits. */
  synchronized Offset admit(
      Supplier<LimitedBatch> candidate, Offset latest, long mostRecords, boolean fixedEnd) {
    if (killSwitch.whyOff() != null) {
      return null;
    }
    if (admissionsPaused.pause()) {
      figures.notAdmitted(admissionsPaused.toString());
      return null;
    }
    try {
      LimitedBatch batch = candidate.get();
      if (batch.waiting().isEmpty()) {
        return latest;
      }
      running();
      if (!admits) { // the options that seem to limit batches limit none
        return null;
      }
      readState(latest);
      Offset end = ask(batch, mostRecords, fixedEnd);
      admissionsPaused.succeeded();
      return end;
    } catch (Exception | LinkageError e) {
      PlannerException failure = failure(e);
      fallBack(failure, admissionsPaused, "limit", "limits hold");
      figures.notAdmitted(failure.getMessage());
      return null;
    }
  }

  private Offset ask(LimitedBatch batch, long mostRecords, boolean fixedEnd)
      throws PlannerException, InterruptedException {
    long startedNanos = System.nanoTime();
    readReports();
    SharedPlanner.Client planner = running();
    List<OffsetRange> waiting = batch.waiting();
    Columns.Ranges asked = Columns.Ranges.of(waiting);
    long limitMs = options.planTimeoutMs();
    Messages.AdmitBatch request =
        new Messages.AdmitBatch(
            ExecutorList.parallelism(context),
            zones.executors(),
            asked,
            Columns.Reports.of(figures.observed()),
            state,
            mostRecords == Long.MAX_VALUE ? null : mostRecords,
            fixedEnd,
            lastCompleted,
            times == null ? null : times.of(waiting, limitMs),
            retentions == null ? null : retentions.of(asked.topics()),
            planner.stream());
    admitted = null;
    lastCompleted = null;
    String text = planner.ask(Messages.write(request), limitMs);
    for (int i = 0;
        i < MOST_LOOK_UPS
            && Messages.read(text, Messages.Answer.class) instanceof Messages.LookUp lookUp;
        i++) {
      request = request.with(times.lookUp(i + 1, lookUp.timeMs(), waiting, limitMs));
      text = planner.ask(Messages.write(request), limitMs);
    }
    Messages.Admitted answer = Messages.read(text, Messages.Admitted.class);
    List<OffsetRange> ranges = answer.ranges().unpack();
    Offset end = batch.end(ranges, mostRecords);
    long records = ranges.stream().mapToLong(range -> range.end() - range.start()).sum();
    String logged = log == null ? null : PlanLog.admission(Messages.write(request.forLog()), text);
    admitted = new AdmittedBatch(end, records, startedNanos, logged);
    figures.admitted(answer.metrics());
    LOG.info("a batch is admitted: {}", answer.metrics());
    return end;
  }

  /** Takes in what finished readers sent. */
  private void readReports() {
    List<ReadReport> read = reports.drain();
    figures.read(read);
    if (times != null) {
      times.read(read);
    }
  }

  @Override
  public synchronized void close() {
    if (commits != null) {
      commits.close();
    }
    if (retentions != null) {
      retentions.close();
    }
    if (zones != null) {
      zones.close();
    }
    if (times != null) {
      times.close();
    }
    files.close();
    stream.end();
    leavePlanner();
  }

  private void leavePlanner() {
    if (planner != null) {
      planner.close();
      planner = null;
    }
  }

  private InputPartition[] planOrFallBack(
      Offset end, InputPartition[] ranges, TaskBuilder noted) {
    if (zones != null) {
      zones.begin();
    }
    String off = killSwitch.whyOff();
    if (off != null) {
      leavePlanner();
      admitted = null; // this batch says nothing about ours
      plansPaused.succeeded();
      admissionsPaused.succeeded();
      figures.switchedOff(off, ranges.length);
      return ranges;
    }
    if (plansPaused.pause()) {
      figures.fellBack(plansPaused.toString(), ranges.length);
      return ranges;
    }
    try {
      readState(end);
      InputPartition[] tasks = plan(end, noted == null ? new TaskBuilder(ranges) : noted);
      plansPaused.succeeded();
      return tasks;
    } catch (Exception | LinkageError e) { // Scala's methods throw checked exceptions unannounced
      PlannerException failure = failure(e);
      fallBack(failure, plansPaused, "plan", "mapping is used");
      figures.fellBack(failure.getMessage(), ranges.length);
      return ranges;
    }
  }

  private InputPartition[] plan(Offset end, TaskBuilder builder)
      throws PlannerException, InterruptedException {
    long startedNanos = System.nanoTime();
    readReports();
    SharedPlanner.Client planner = running();
    List<ExecutorList.Executor> executors = zones.executors();
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
            zones.of(executors, builder.requested()),
            planner.stream(),
            counted(partitionsOf(end)),
            null);
    String answer = planner.ask(Messages.write(request), options.planTimeoutMs());
    Messages.Planned plan = Messages.read(answer, Messages.Planned.class);
    InputPartition[] tasks =
        builder.build(plan.tasks().unpack(), executors, consumers, plans + 1);
    if (log != null) {
      String batch = context.getLocalProperty("streaming.sql.batchId");
      boolean limited = admitted != null && admitted.end().equals(KafkaSourceOffset.apply(end));
      log.append(
          batch,
          Messages.write(request.with(written.valuesToLog())),
          answer,
          limited ? admitted.logged() : "");
    }
    state = plan.state();
    readerRacks = zones.forReaders(executors);
    zones.planned(plan.metrics());
    plans++;
    long millis = (System.nanoTime() - startedNanos) / 1_000_000;
    figures.planned(plan, plans, tasks.length, millis);
    LOG.info("{} tasks by assignor '{}': {}", tasks.length, plan.assignor(), plan.metrics());
    plan.reasons().forEach(reason -> LOG.debug("{}", reason));
    return tasks;
  }

  /** How many partitions each topic has, by the highest number. */
  private static Map<String, Integer> counted(Set<TopicPartition> live) {
    Map<String, Integer> counts = new TreeMap<>();
    live.forEach(p -> counts.merge(p.topic(), p.partition() + 1, Math::max));
    return counts;
  }

  /** Before the first plan: takes the newest stored state that the planner can use. */
  private void readState(Offset end) throws PlannerException, InterruptedException {
    if (!stateIsRead) {
      SharedPlanner.Client planner = running();
      Collection<String> topics = Messages.topicsOf(end.json());
      state =
          files.restore(
              stateVersion,
              text -> {
                String request = Messages.write(new Messages.Restore(text, topics));
                String answer = planner.ask(request, options.planTimeoutMs());
                return Messages.read(answer, Messages.Restored.class).why();
              });
      stateIsRead = true;
    }
  }

  /** The planner, which has validated the options. */
  private SharedPlanner.Client running() throws PlannerException, InterruptedException {
    if (planner == null) {
      written.checkSpelling();
      planner = new SharedPlanner.Client(written);
    }
    Messages.Validated valid = planner.validated();
    JarVersion.checkPackage(valid.packageVersion(), written.interpreter().command());
    if (options == null) {
      begin(valid);
    }
    return planner;
  }

  /** Once a stream: its options never change, whichever process has validated them. */
  private void begin(Messages.Validated valid) throws PlannerException {
    zones = new Zones(context, valid.options(), written.kafka()); // fails for a bad file of racks
    if (valid.options().commitGroup() != null) {
      commits = new GroupCommits(valid.options().commitGroup(), written.kafka());
    }
    if (valid.needsTimes()) {
      times = new RecordTimes(written.kafka());
    }
    if (valid.options().planLog() != null) {
      log = new PlanLog(valid.options().planLog());
    }
    if ("deadline".equals(valid.options().fairness())) {
      retentions = new Retentions(written.kafka());
    }
    options = valid.options();
    stateVersion = valid.stateVersion();
    admits = valid.admits();
  }

  /** The planner begins anew with this stream; says why there is no answer. */
  private PlannerException failure(Throwable e) {
    if (planner != null && !(e instanceof RecordTimes.NoTimesException)) {
      planner.forget();
    }
    if (e instanceof InterruptedException) { // Spark takes it as the query's end, if it is as it is
      throw BatchPlanner.<RuntimeException>sneaky(e);
    }
    return e instanceof PlannerException failure
        ? failure
        : PlannerException.unexpected(e, context.version());
  }

  /** Fails the query if the user wants that; else warns once and goes on. */
  private void fallBack(PlannerException e, Pauses pauses, String what, String instead) {
    String who = "query " + context.getLocalProperty("sql.streaming.queryId");
    if (options == null ? written.failOnError() : options.onError().equals("fail")) {
      throw new IllegalStateException(
          "assignor-bridge could not " + what + " a micro-batch of " + who + ": " + e.getMessage(), e);
    }
    if (pauses.failed(e.getMessage())) {
      LOG.warn(
          "assignor-bridge could not {} a micro-batch of {}, Spark's own {} instead"
              + " (assignor.onError=fail would stop the query): {}",
          what,
          who,
          instead,
          e.getMessage());
      LOG.debug("where it failed", e);
    }
  }

  @SuppressWarnings("unchecked") // the cast is the point: the exception leaves as it is
  private static <E extends Throwable> E sneaky(Throwable e) throws E {
    throw (E) e;
  }
}
