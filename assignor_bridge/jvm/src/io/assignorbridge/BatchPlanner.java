package io.assignorbridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
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
  private final PlanFigures figures = new PlanFigures();
  private final ReadReports reports = new ReadReports();
  private final DynamicAllocation allocation = new DynamicAllocation();

  private PlannerProcess process;
  private PlanJson.Valid valid; // null until a planner has taken the options
  private GroupCommits commits; // null without assignor.commitGroup
  private PlanLog log; // null without assignor.planLog
  private Batch lastBatch;
  private InputPartition[] lastTasks;
  private String state;
  private boolean stateIsRead;
  private boolean planned;
  private long plans;
  private int failuresInARow;
  private int pausedBatches;

  BatchPlanner(SparkSession session, AssignorOptions options, String metadataPath) {
    context = session.sparkContext();
    this.options = options;
    files = new StateFiles(metadataPath, session.sessionState().newHadoopConf());
    context.register(reports);
  }

  /** Starts the process and has the options checked, so that a wrong one fails the query at once. */
  synchronized void start() {
    try {
      running();
    } catch (InterruptedException e) {
      throw interrupted(e);
    } catch (PlannerException e) {
      stopProcess();
      if (e.misuse) {
        throw new IllegalArgumentException(e.getMessage(), e);
      }
      orFail(e);
    } catch (RuntimeException | LinkageError e) {
      stopProcess();
      orFail(PlannerException.unexpected(e, context.version()));
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

  synchronized PartitionReaderFactory readerFactory(PartitionReaderFactory base) {
    // Without an answer there is no plan yet, and so no task for one of our readers.
    return new AssignedReaderFactory(base, valid == null || valid.sharesReader(), reports);
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
    if (valid != null) {
      files.save(state, valid.stateVersion());
    }
    if (commits != null) {
      commits.completed(end);
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
    } catch (InterruptedException e) {
      throw interrupted(e);
    } catch (PlannerException e) {
      fellBack(e, ranges);
    } catch (Exception | LinkageError e) { // Scala's methods throw checked exceptions unannounced
      fellBack(PlannerException.unexpected(e, context.version()), ranges);
    }
    return ranges;
  }

  private void fellBack(PlannerException e, InputPartition[] ranges) {
    stopProcess(); // a new one starts with the next batch
    orFail(e);
    figures.fellBack(e.getMessage(), ranges.length);
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
            ExecutorList.parallelism(context),
            builder.owed(),
            options.values(),
            observed,
            state,
            allocation.now(context),
            valid.takesPacked() && builder.owed().size() + observed.size() >= LEAST_PACKED);
    String answer = planner.ask(request, valid.planTimeoutMs());
    PlanJson.Plan plan = PlanJson.plan(answer);
    InputPartition[] tasks =
        builder.build(plan.tasks(), executors, stream.of(builder.owed()), plans + 1);
    if (log != null) {
      log.append(batchId(), request, answer);
    }
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
                planner.ask(PlanJson.restore(text, topics), valid.planTimeoutMs()));
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
      return files.newestFirst(valid.stateVersion());
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
      process = new PlannerProcess(options.interpreter());
      PlanJson.Valid answer =
          PlanJson.valid(process.ask(PlanJson.validation(options.values()), START_TIMEOUT_MS));
      if (valid == null) {
        begin(answer);
      }
      valid = answer;
    }
    return process;
  }

  /** Sets up what the options ask for, once their meaning is known. */
  private void begin(PlanJson.Valid options) {
    if (options.commitGroup() != null) {
      commits = new GroupCommits(options.commitGroup(), this.options.kafka());
    }
    if (options.planLog() != null) {
      log = new PlanLog(options.planLog());
    }
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
    if (valid == null ? options.failOnError() : valid.failsOnError()) {
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
      LOG.debug("where it failed", e);
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
