package io.assignorbridge.source;

import io.assignorbridge.admission.LimitedBatch;
import io.assignorbridge.cluster.ExecutorList;
import io.assignorbridge.kafka.LogEndOffsets;
import io.assignorbridge.planning.BatchPlanner;
import io.assignorbridge.settings.AssignorOptions;
import io.assignorbridge.settings.KillSwitch;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaOffsetRangeLimit;
import org.apache.spark.sql.kafka010.KafkaOffsetReader;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's Kafka stream with tasks from the planner instead of Spark's default assignment, and with
 * the planner's limits if options set any. It inherits data-loss checks, AvailableNow, and metrics.
 */
final class AssignedMicroBatchStream extends KafkaMicroBatchStream {
  private static final Logger LOG = LoggerFactory.getLogger(AssignedMicroBatchStream.class);

  /**
   * The query's thread of each running stream. If a query fails before all its streams exist, Spark
   * stops none of them. They are stopped when the next stream starts.
   */
  private static final Map<AssignedMicroBatchStream, Thread> THREAD_BY_STREAM =
      new ConcurrentHashMap<>();

  private final BatchPlanner planner;
  private final LogEndOffsets logEndOffsets;
  private final SparkContext context;
  private final KafkaOffsetReader offsetReader;
  private final boolean limitsBatches;
  private final boolean failOnError;
  private final Set<String> warnedActions = new HashSet<>();
  private boolean hasLatestOffset;
  private boolean hasFixedEnd;
  private boolean ignoresMinimum; // true after the first batch with a fixed end

  /** Copies the fields of Spark's own stream, which are the same in Spark 4.0 to 4.2. */
  @SuppressWarnings("unchecked") // the field is a java.util.Map<String, Object>
  AssignedMicroBatchStream(
      MicroBatchStream base,
      CaseInsensitiveStringMap options,
      AssignorOptions assignorOptions,
      KillSwitch killSwitch,
      SparkSession session) {
    super(
        (KafkaOffsetReader) readField(base, "kafkaOffsetReader"),
        (Map<String, Object>) readField(base, "executorKafkaParams"),
        options,
        (String) readField(base, "metadataPath"),
        (KafkaOffsetRangeLimit) readField(base, "startingOffsets"),
        (Boolean) readField(base, "failOnDataLoss"));
    String metadataPath = (String) readField(base, "metadataPath");
    context = session.sparkContext();
    String queryId = context.getLocalProperty("sql.streaming.queryId");
    logEndOffsets = new LogEndOffsets(assignorOptions.kafkaSettings(), queryId, metadataPath);
    planner = new BatchPlanner(session, assignorOptions, killSwitch, metadataPath);
    offsetReader = (KafkaOffsetReader) readField(base, "kafkaOffsetReader");
    limitsBatches = assignorOptions.limitsBatches();
    failOnError = assignorOptions.failOnError();
  }

  private static Object readField(MicroBatchStream base, String name) {
    try {
      Field field = KafkaMicroBatchStream.class.getDeclaredField(name);
      field.setAccessible(true);
      return field.get(base);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("KafkaMicroBatchStream has no field '" + name + "'", e);
    }
  }

  /** Stops streams of failed queries, and starts the planner; stop this stream after an error. */
  void startPlanner() {
    THREAD_BY_STREAM.forEach(
        (stream, queryThread) -> {
          if (!queryThread.isAlive()) {
            attempt("stop the stream of a query that has failed", stream::stop);
          }
        });
    THREAD_BY_STREAM.put(this, Thread.currentThread());
    planner.start();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    InputPartition[] partitions = super.planInputPartitions(start, end); // checks the offsets, too
    return partitions.length == 0 ? partitions : planner.assign(start, end, partitions);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return planner.createReaderFactory(super.createReaderFactory());
  }

  /**
   * Returns the metrics, and completes the batches up to these offsets. Spark calls this when a
   * batch is in the commit log (even for the last batch of an AvailableNow run) and at each idle
   * trigger, but not for failed batches. Spark calls `commit(end)` only with the next batch.
   */
  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    Map<String, String> planMetrics = new HashMap<>();
    attempt("complete a batch", () -> latestConsumedOffset.ifPresent(planner::complete));
    attempt("return the metrics of a batch", () -> planMetrics.putAll(planner.metrics()));
    Map<String, String> allMetrics = new HashMap<>(readSparkMetrics(latestConsumedOffset));
    allMetrics.putAll(planMetrics);
    return allMetrics;
  }

  /** Runs work whose failure must not end the query, even with onError=fail; logs each action once. */
  private void attempt(String action, Runnable work) {
    try {
      work.run();
    } catch (RuntimeException | LinkageError e) {
      if (warnedActions.add(action)) {
        LOG.warn("assignor-bridge could not {} (the query continues; logged once)", action, e);
      }
    }
  }

  /** Overrides a method that Spark 4.1 added; reports that the option has no effect, or fails. */
  public void prepareForRealTimeMode() throws Throwable {
    try {
      NoEffect.report("Spark does not plan batches in real-time mode", failOnError);
    } catch (IllegalArgumentException e) {
      stop(); // Spark does not, because this stream is not part of the query yet
      throw e;
    }
    findSparkMethod("prepareForRealTimeMode", MethodType.methodType(void.class)).invokeExact(this);
  }

  /** Returns Spark's tasks in real-time mode, one per partition; warns if slots are too few. */
  public InputPartition[] planInputPartitions(Offset start) throws Throwable {
    InputPartition[] partitions =
        (InputPartition[])
            findSparkMethod(
                    "planInputPartitions",
                    MethodType.methodType(InputPartition[].class, Offset.class))
                .invokeExact(this, start);
    attempt("count task slots", () -> warnOfTooFewSlots(partitions.length));
    return partitions;
  }

  private void warnOfTooFewSlots(int partitionCount) {
    int slotCount = ExecutorList.countSlots(context);
    if (partitionCount > slotCount && warnedActions.add("too few slots")) {
      LOG.warn(
          "real-time mode needs a task slot for each partition: give the application {} slots"
              + " instead of {}, or Spark does not read all partitions of the stream (logged once)",
          partitionCount, slotCount);
    }
  }

  private static MethodHandle findSparkMethod(String name, MethodType type)
      throws ReflectiveOperationException {
    return MethodHandles.lookup()
        .findSpecial(KafkaMicroBatchStream.class, name, type, AssignedMicroBatchStream.class);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    super.prepareForTriggerAvailableNow();
    hasFixedEnd = true;
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    ReadLimit limit = super.getDefaultReadLimit();
    return limitsBatches ? LimitedBatch.Limits.addAssignorLimit(limit) : limit;
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    boolean isLimited = limitsBatches && !(limit instanceof ReadAllAvailable);
    Offset end = isLimited ? limitBatch(start, limit) : super.latestOffset(start, limit);
    hasLatestOffset = true;
    attempt(
        "store the end offsets of the logs",
        () -> {
          Offset logEnds = reportLatestOffset();
          if (logEnds != null) { // there are partitions
            logEndOffsets.setLatestOffset(logEnds, hasFixedEnd);
          }
        });
    return end;
  }

  /** Returns the batch's end. Spark decides whether there is a batch; the planner sets its size. */
  private Offset limitBatch(Offset start, ReadLimit limit) {
    LimitedBatch.Limits limits = LimitedBatch.Limits.of(limit);
    if (limits.maxOffsets() < 1) {
      return super.latestOffset(start, limit);
    }
    ReadLimit min = ignoresMinimum ? ReadLimit.allAvailable() : limits.min();
    Offset latestOffset = super.latestOffset(start, min);
    if (latestOffset == null || latestOffset.equals(start)) {
      return latestOffset;
    }
    ignoresMinimum = hasFixedEnd;
    Offset end =
        planner.admit(
            () -> new LimitedBatch(start, latestOffset, limits.maxOffsets(), offsetReader),
            latestOffset,
            hasFixedEnd);
    return end == null ? super.latestOffset(start, limits.max()) : end;
  }

  /**
   * Returns Spark's metrics. A batch that is repeated after a crash takes its offsets from the log,
   * before Spark has requested the latest ones. In that case, Spark 4.1 fails the query when it
   * computes metrics (apache/spark#55236); Spark 4.0 and 4.2 return none.
   */
  private Map<String, String> readSparkMetrics(Optional<Offset> latestConsumedOffset) {
    try {
      return super.metrics(latestConsumedOffset);
    } catch (NullPointerException e) {
      if (hasLatestOffset) {
        throw e;
      }
      return Map.of();
    }
  }

  @Override
  public void stop() {
    THREAD_BY_STREAM.remove(this);
    try {
      logEndOffsets.close();
      planner.close();
    } finally {
      super.stop();
    }
  }
}
