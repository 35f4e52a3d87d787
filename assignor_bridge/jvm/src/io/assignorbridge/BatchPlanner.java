package io.assignorbridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Turns the ranges of one micro-batch into the planner's tasks, once per (start, end). It decides
 * nothing: it asks the Python process, has the answer verified, and when there is no good answer
 * hands Spark its own mapping back (or fails the query, under `assignor.onError=fail`).
 */
final class BatchPlanner implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(BatchPlanner.class);
  private static final long START_TIMEOUT_MS = 60_000;
  private static final int LONGEST_PAUSE_BATCHES = 64;

  /** Fewer ranges and reports are sent as rows: nothing is gained, and a person can read them. */
  private static final int LEAST_PACKED = 256;

  private record Batch(Offset start, Offset end) {}

  private final SparkContext context;
  private final AssignorOptions options;
  private final StreamIdentity stream = new StreamIdentity();
  private final StateFiles files;
  private final GroupCommits commits; // null without assignor.commitGroup
  private final PlanFigures figures = new PlanFigures();
  private final ReadReports reports = new ReadReports();

  private PlannerProcess process;
  private Batch lastBatch;
  private InputPartition[] lastTasks;
  private String state;
  private int stateVersion;
  private boolean takesPacked;
  private boolean stateIsRead;
  private boolean planned;
  private long plans;
  private int failuresInARow;
  private int pausedBatches;

  BatchPlanner(SparkContext context, AssignorOptions options, SourceFolder folder) {
    this.context = context;
    this.options = options;
    files = folder.states();
    commits =
        options.commitGroup() == null
            ? null
            : new GroupCommits(
                options.commitGroup(),
                options.python(),
                options.kafka(),
                folder::lastCommittedBatch);
    context.register(reports);
  }

  /** Starts the process and has the options checked, so that a wrong one fails the query at once. */
  void start() {
    try {
      running();
    } catch (PlannerException e) {
      stopProcess();
      if (e.misuse) {
        throw new IllegalArgumentException(e.getMessage(), e);
      }
      orFail(e);
    } catch (InterruptedException e) {
      throw interrupted(e);
    }
  }

  /** From here on the thread's batch id is one of this run. */
  synchronized void batchBegins() {
    planned = true;
  }

  /** The tasks of a micro-batch; the same array when Spark asks again for the same one. */
  synchronized InputPartition[] assign(Offset start, Offset end, InputPartition[] ranges) {
    Batch batch = new Batch(start, end);
    if (!batch.equals(lastBatch)) {
      lastTasks = planOrFallBack(end, ranges);
      lastBatch = batch;
    }
    return lastTasks;
  }

  PartitionReaderFactory readerFactory(PartitionReaderFactory base) {
    return new AssignedReaderFactory(base, options.sharesReader(), reports);
  }

  synchronized Map<String, String> metrics() {
    figures.read(reports.drain());
    Map<String, String> all = figures.metrics();
    if (commits != null) {
      all.putAll(commits.metrics());
    }
    return all;
  }

  /** All batches so far are completed, and these are their end offsets; idle triggers say so too. */
  synchronized void completed(Offset end) {
    files.save(state, stateVersion);
    if (commits != null) {
      commits.completed(batchId(), end.json());
    }
  }

  @Override
  public synchronized void close() {
    if (commits != null) {
      commits.close();
    }
    files.close();
    stream.end();
    stopProcess();
  }

  /** Number of the batch that this thread runs or ran last; -1 before the first of this run. */
  private long batchId() {
    String batch = planned ? context.getLocalProperty("streaming.sql.batchId") : null;
    return batch == null ? -1 : Long.parseLong(batch);
  }

  private InputPartition[] planOrFallBack(Offset end, InputPartition[] ranges) {
    if (pausedBatches > 0) {
      pausedBatches--;
      figures.fellBack("paused after " + failuresInARow + " failures in a row", ranges.length);
      return ranges;
    }
    try {
      readState(end);
      InputPartition[] tasks = plan(ranges);
      failuresInARow = 0;
      return tasks;
    } catch (PlannerException e) {
      stopProcess(); // a new one starts with the next batch
      orFail(e);
      figures.fellBack(e.getMessage(), ranges.length);
      return ranges;
    } catch (InterruptedException e) {
      throw interrupted(e);
    }
  }

  private InputPartition[] plan(InputPartition[] partitions)
      throws PlannerException, InterruptedException {
    long startedNanos = System.nanoTime();
    figures.read(reports.drain());
    TaskBuilder builder = new TaskBuilder(partitions);
    List<ExecutorList.Slots> executors = ExecutorList.of(context);
    PlannerProcess planner = running();
    List<ReadReport> observed = figures.takeObserved();
    String request =
        PlanJson.snapshot(
            executors,
            Math.max(1, context.defaultParallelism()),
            builder.owed(),
            options.values(),
            observed,
            state,
            takesPacked && builder.owed().size() + observed.size() >= LEAST_PACKED);
    PlanJson.Plan plan = PlanJson.plan(planner.ask(request, options.planTimeoutMs()));
    InputPartition[] tasks = builder.build(plan.tasks(), executors, stream.of(builder.owed()), plans + 1);
    state = plan.state();
    plans++;
    figures.planned(plan, plans, (System.nanoTime() - startedNanos) / 1_000_000, executors.size());
    LOG.info("{} tasks by assignor '{}': {}", tasks.length, plan.assignor(), plan.metrics());
    plan.reasons().forEach(reason -> LOG.debug("{}", reason));
    return tasks;
  }

  /** Before the first plan: takes the newest stored state that the planner can use. */
  private void readState(Offset end) throws PlannerException, InterruptedException {
    if (stateIsRead) {
      return;
    }
    PlannerProcess planner = running();
    List<String> topics = PlanJson.topicsOf(end.json());
    List<String> unusable = new ArrayList<>();
    String used = null;
    for (String name : storedStates(unusable)) {
      try {
        String text = files.read(name);
        JsonNode answer =
            PlanJson.answer(
                planner.ask(PlanJson.restore(text, topics), options.planTimeoutMs()));
        if (answer.path("ok").asBoolean()) {
          state = text;
          files.isSaved(text);
          used = name;
          break;
        }
        unusable.add(files + "/" + name + ": " + answer.path("why").asText());
      } catch (IOException e) {
        unusable.add(files + "/" + name + ": " + reason(e));
      }
    }
    stateIsRead = true;
    if (!unusable.isEmpty()) {
      LOG.warn(
          "assignor-bridge cannot use its stored state and plans {} (partitions may change"
              + " executors; no data is affected): {}",
          used == null ? "without" : "with the older " + used,
          String.join("; ", unusable));
    }
  }

  private List<String> storedStates(List<String> unusable) throws InterruptedException {
    try {
      return files.newestFirst(stateVersion);
    } catch (IOException e) {
      unusable.add(files + ": " + reason(e));
      return List.of();
    }
  }

  /** What went wrong with a file, unless it was the end of the query. */
  private static String reason(IOException e) throws InterruptedException {
    if (e instanceof InterruptedIOException || e instanceof ClosedByInterruptException) {
      throw new InterruptedException(e.toString());
    }
    return e.toString();
  }

  /** The process; a new one has the options checked first, with time for an interpreter to start. */
  private PlannerProcess running() throws PlannerException, InterruptedException {
    if (process != null && !process.isAlive()) {
      stopProcess();
    }
    if (process == null) {
      process = new PlannerProcess(options.python());
      JsonNode valid =
          PlanJson.answer(process.ask(PlanJson.validation(options.values()), START_TIMEOUT_MS));
      stateVersion = valid.path("stateVersion").asInt();
      takesPacked = valid.path("packed").asBoolean();
    }
    return process;
  }

  private void stopProcess() {
    if (process != null) {
      process.close();
      process = null;
    }
  }

  /** Fails the query if the user wants that; else says once what happened and goes on. */
  private void orFail(PlannerException e) {
    String who = "query " + context.getLocalProperty("sql.streaming.queryId");
    if (options.failsOnError()) {
      throw new IllegalStateException(
          "assignor-bridge could not plan a micro-batch of " + who + ": " + e.getMessage(), e);
    }
    failuresInARow++;
    pausedBatches = Math.min(LONGEST_PAUSE_BATCHES, 1 << Math.min(20, failuresInARow - 1)) - 1;
    if (figures.isNews(e.getMessage())) {
      LOG.warn(
          "assignor-bridge could not plan a micro-batch of {}, Spark's own mapping is used instead"
              + " (assignor.onError=fail would stop the query): {}",
          who,
          e.getMessage());
    }
  }

  /** Spark takes an InterruptedException as the query's end; wrapped, it would be a failure. */
  private RuntimeException interrupted(InterruptedException e) {
    stopProcess();
    return BatchPlanner.<RuntimeException>sneaky(e);
  }

  @SuppressWarnings("unchecked") // the cast is the point: the exception leaves as it is
  private static <E extends Throwable> E sneaky(Throwable e) throws E {
    throw (E) e;
  }
}
