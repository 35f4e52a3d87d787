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
 * Reads the ranges that the planner chose instead of Spark's own mapping. Offsets, limits, data-loss
 * checks, AvailableNow and source metrics are inherited.
 */
final class AssignedMicroBatchStream extends KafkaMicroBatchStream {
  private static final Logger LOG = LoggerFactory.getLogger(AssignedMicroBatchStream.class);

  /**
   * By the thread of its query. Spark stops no stream of a query that fails before it has all of its
   * streams: those are stopped when the next one starts.
   */
  private static final Map<AssignedMicroBatchStream, Thread> RUNNING = new ConcurrentHashMap<>();

  private final BatchPlanner planner;
  private final LogEndOffsets logEnds;
  private final SparkContext context;
  private final KafkaOffsetReader offsets;
  private final boolean limitsBatches;
  private final boolean failOnError;
  private final Set<String> warned = new HashSet<>();
  private boolean knowsLatest;
  private boolean hasFixedEnd;
  private boolean isOnTheWay; // to the fixed end: what is left is read, however little it is

  /** Made of what Spark's scan gave its own stream; the private fields are the same in 4.0 to 4.2. */
  @SuppressWarnings("unchecked") // the field is a java.util.Map<String, Object>
  AssignedMicroBatchStream(
      MicroBatchStream base,
      CaseInsensitiveStringMap options,
      AssignorOptions ours,
      KillSwitch killSwitch,
      SparkSession session) {
    super(
        (KafkaOffsetReader) field(base, "kafkaOffsetReader"),
        (Map<String, Object>) field(base, "executorKafkaParams"),
        options,
        (String) field(base, "metadataPath"),
        (KafkaOffsetRangeLimit) field(base, "startingOffsets"),
        (Boolean) field(base, "failOnDataLoss"));
    String metadataPath = (String) field(base, "metadataPath");
    context = session.sparkContext();
    String query = context.getLocalProperty("sql.streaming.queryId");
    logEnds = new LogEndOffsets(ours.kafka(), query, metadataPath);
    planner = new BatchPlanner(session, ours, killSwitch, metadataPath);
    offsets = (KafkaOffsetReader) field(base, "kafkaOffsetReader");
    limitsBatches = ours.limitsBatches();
    failOnError = ours.failOnError();
  }

  private static Object field(MicroBatchStream base, String name) {
    try {
      Field field = KafkaMicroBatchStream.class.getDeclaredField(name);
      field.setAccessible(true);
      return field.get(base);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("KafkaMicroBatchStream has no field '" + name + "'", e);
    }
  }

  /** Fails for a wrong option; to be stopped then. */
  void startPlanner() {
    RUNNING.forEach(
        (stream, query) -> {
          if (!query.isAlive()) {
            attempt("stop the stream of a query that has failed", stream::stop);
          }
        });
    RUNNING.put(this, Thread.currentThread());
    planner.start();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    InputPartition[] ranges = super.planInputPartitions(start, end); // Spark's checks come first
    return ranges.length == 0 ? ranges : planner.assign(start, end, ranges);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return planner.createReaderFactory(super.createReaderFactory());
  }

  /**
   * Spark asks for metrics after a batch was completed and noted in the commit log, the last one of
   * an AvailableNow run too, and at each idle trigger; then all before these offsets is written.
   * (`commit(end)` comes only with the next batch.) Batches that failed do not get here.
   */
  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    Map<String, String> ours = new HashMap<>();
    attempt("note that a batch is completed", () -> latestConsumedOffset.ifPresent(planner::complete));
    attempt("give metrics of a batch", () -> ours.putAll(planner.metrics()));
    Map<String, String> all = new HashMap<>(metricsOfSpark(latestConsumedOffset));
    all.putAll(ours);
    return all;
  }

  /** For what must not end the query, whatever `onError` says; such as when a batch is written. */
  private void attempt(String what, Runnable work) {
    try {
      work.run();
    } catch (RuntimeException | LinkageError e) {
      if (warned.add(what)) {
        LOG.warn("assignor-bridge could not {} (the query goes on; warned once)", what, e);
      }
    }
  }

  /** Overrides Spark's method of 4.1 and later, which 4.0 does not have. */
  public void prepareForRealTimeMode() throws Throwable {
    try {
      NoEffect.of("real-time mode plans no batches", failOnError);
    } catch (IllegalArgumentException e) {
      stop(); // Spark does not do it: the query does not have this stream yet
      throw e;
    }
    methodOfSpark("prepareForRealTimeMode", MethodType.methodType(void.class)).invokeExact(this);
  }

  /** The same, for a batch in real-time mode: Spark runs one task per partition until it ends. */
  public InputPartition[] planInputPartitions(Offset start) throws Throwable {
    InputPartition[] partitions =
        (InputPartition[])
            methodOfSpark(
                    "planInputPartitions",
                    MethodType.methodType(InputPartition[].class, Offset.class))
                .invokeExact(this, start);
    attempt("count task slots", () -> warnOfStarvation(partitions.length));
    return partitions;
  }

  private void warnOfStarvation(int partitions) {
    int slots = ExecutorList.slots(context);
    if (partitions > slots && warned.add("too few slots")) {
      LOG.warn(
          "real-time mode needs a task slot for each partition, but the query reads {} partitions and"
              + " the application has {} slots: Spark does not read {} of the partitions. Give the"
              + " application {} slots (warned once)",
          partitions,
          slots,
          partitions - slots,
          partitions);
    }
  }

  private static MethodHandle methodOfSpark(String name, MethodType type)
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
    return limitsBatches ? LimitedBatch.Limits.addOurs(limit) : limit;
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    boolean ours = limitsBatches && !(limit instanceof ReadAllAvailable);
    Offset latest = ours ? admitted(start, limit) : super.latestOffset(start, limit);
    knowsLatest = true;
    attempt(
        "note where the logs end",
        () -> {
          Offset ends = reportLatestOffset();
          if (ends != null) { // there are partitions
            logEnds.setLatest(ends, hasFixedEnd);
          }
        });
    return latest;
  }

  /** Spark says whether there is a batch and how far it could go, the planner how far it goes. */
  private Offset admitted(Offset start, ReadLimit limit) {
    LimitedBatch.Limits limits = LimitedBatch.Limits.of(limit);
    if (limits.maxRecords() < 1) {
      return super.latestOffset(start, limit);
    }
    ReadLimit least = isOnTheWay ? ReadLimit.allAvailable() : limits.min();
    Offset latest = super.latestOffset(start, least);
    if (latest == null || latest.equals(start)) {
      return latest;
    }
    isOnTheWay = hasFixedEnd;
    Offset end =
        planner.admit(
            () -> new LimitedBatch(start, latest, limits.maxRecords(), offsets),
            latest,
            hasFixedEnd);
    return end == null ? super.latestOffset(start, limits.max()) : end;
  }

  /**
   * A batch that is run again after a crash takes its offsets from the log, and nobody has asked for
   * the latest ones yet. The metrics of Spark 4.1 fail then (apache/spark#55236) and with them the
   * query; those of 4.0 and 4.2 are empty.
   */
  private Map<String, String> metricsOfSpark(Optional<Offset> latestConsumedOffset) {
    try {
      return super.metrics(latestConsumedOffset);
    } catch (NullPointerException e) {
      if (knowsLatest) {
        throw e;
      }
      return Map.of();
    }
  }

  @Override
  public void stop() {
    RUNNING.remove(this);
    try {
      logEnds.close();
      planner.close();
    } finally {
      super.stop();
    }
  }
}
