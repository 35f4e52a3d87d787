package io.assignorbridge.reader;

import io.assignorbridge.model.AssignedInputPartition;
import io.assignorbridge.model.ReadReport;
import io.assignorbridge.reader.RangeCursor.Chunk;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads all ranges of a task with one Kafka consumer and returns their rows in plan order, then by
 * offset, whatever the order of arrival. Ranges are bounded, so the reader neither waits at the end
 * of a log nor requests end offsets. If offsets are gone or a partition makes no progress, Spark's
 * own reader reads the rest of the range, at the same place in the order. With
 * `assignor.reader=spark`, Spark's readers read all ranges from the start.
 */
public final class SharedReader implements PartitionReader<InternalRow> {
  private static final Logger LOG = LoggerFactory.getLogger(SharedReader.class);
  private static final Duration POLL_LIMIT = Duration.ofMillis(100); // a killed task ends within it
  private static final long SHORT_TIMEOUT_MILLIS = 10_000; // longer ones are halved, down to this
  private static final long GRACE_NANOS = 2_000_000_000L; // for other partitions after a hand-over

  private final AssignedInputPartition task;
  private final SparkRanges sparkRanges;
  private final String rack; // null if unknown
  private final Consumer<ReadReport> reportSink;
  private final Consumer<Map<Integer, Long>> receivedBytesSink;
  private final TaskContext context = TaskContext.get();
  private final Collection<String> endedStreams;
  private final List<RangeCursor> unreportedRanges = new ArrayList<>();
  private final OrderedRanges ranges = new OrderedRanges();
  private final ReadTimes times = new ReadTimes();
  private final long startedNanos = System.nanoTime();

  /**
   * Empty while a thread uses the consumer, because a thread that pipes the task's rows can outlive
   * the task. The thread that took the consumer puts it back or returns it to the pool.
   */
  private final AtomicReference<PooledConsumer> consumer = new AtomicReference<>();

  private volatile boolean closed;
  private RecordRow recordRow;
  private List<ConsumerRecord<byte[], byte[]>> records = List.of();
  private int nextRecord; // index in `records`
  private InternalRow row;
  private long waitedNanos; // without progress
  private long maxWaitNanos; // before Spark's reader takes over
  private boolean isFinished;

  /**
   * Prepares to read; the first call of {@link #next} takes a consumer.
   *
   * @param sparkReaders creates Spark's own reader of a range
   * @param usesSharedReader false to leave all ranges to Spark's readers
   * @param endedStreams names of this driver's streams that have no further tasks
   * @param rack rack of this executor, or null if unknown
   * @param reportSink gets each range's report: at once if Spark's reader read it, else at the end
   * @param receivedBytesSink gets the received network bytes by broker id, if the rack is known
   */
  public SharedReader(
      AssignedInputPartition task,
      PartitionReaderFactory sparkReaders,
      boolean usesSharedReader,
      Collection<String> endedStreams,
      String rack,
      Consumer<ReadReport> reportSink,
      Consumer<Map<Integer, Long>> receivedBytesSink) {
    this.task = task;
    this.sparkRanges = new SparkRanges(sparkReaders);
    this.endedStreams = endedStreams;
    this.rack = rack;
    this.reportSink = reportSink;
    this.receivedBytesSink = receivedBytesSink;
    for (int i = 0; i < task.ranges().length; i++) {
      RangeCursor cursor = new RangeCursor(i, task.ranges()[i]);
      unreportedRanges.add(cursor);
      // Offsets below 0 mean "earliest" and "latest", which Spark's reader resolves itself.
      if (!usesSharedReader || cursor.start < 0 || cursor.end < 0) {
        cursor.handOver(cursor.start);
        ranges.add(cursor);
      } else if (cursor.start < cursor.end) {
        ranges.add(cursor);
      }
    }
  }

  @Override
  public boolean next() throws IOException {
    do {
      if (nextRecord < records.size()) {
        row = recordRow.show(records.get(nextRecord++));
        return true;
      }
      if (sparkRanges.isOpen()) {
        row = sparkRanges.next();
        if (row != null) {
          return true;
        }
        times.charge(null);
        report(sparkRanges.range());
        unreportedRanges.remove(sparkRanges.range());
      }
    } while (advance());
    return false;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return sparkRanges.metrics();
  }

  @Override
  public void close() throws IOException {
    closed = true;
    try {
      sparkRanges.close();
    } finally {
      releaseConsumer();
    }
  }

  /**
   * Returns the consumer to the pool if it has received all begun ranges, as when a LIMIT ends the
   * task early. Otherwise (an error, a kill, or unfinished ranges), closes it. If another thread
   * uses the consumer, that thread releases it.
   */
  private void releaseConsumer() {
    PooledConsumer pooledConsumer = consumer.getAndSet(null);
    if (pooledConsumer == null) {
      return;
    }
    boolean hasFailed = context == null || context.isFailed() || context.isInterrupted();
    if (hasFailed || pooledConsumer.isReading()) {
      ConsumerPool.shared().discard(pooledConsumer);
    } else {
      giveBack(pooledConsumer);
    }
  }

  private void giveBack(PooledConsumer pooledConsumer) {
    if (rack != null) {
      receivedBytesSink.accept(pooledConsumer.takeReceivedBytes());
    }
    ConsumerPool.shared().giveBack(pooledConsumer);
  }

  private void discardConsumer() {
    PooledConsumer pooledConsumer = consumer.getAndSet(null);
    if (pooledConsumer != null) {
      ConsumerPool.shared().discard(pooledConsumer);
    }
  }

  /**
   * Advances to the next records of this reader or Spark's; returns false at the end.
   *
   * <p>1. If records of the first unfinished range have arrived, start its next chunk. 2. Otherwise
   * begin the pending ranges, which delivers records that were kept, or poll once for all begun
   * ranges. 3. At the end of a range, go on with the next one. If it was handed over, Spark's reader
   * reads the rest first. 4. Without a range left, return the consumer to the pool, and report.
   */
  private boolean advance() throws IOException {
    while (!isFinished) {
      RangeCursor firstRange = ranges.first();
      Chunk chunk = firstRange == null ? null : firstRange.chunks.poll();
      if (chunk != null) {
        startChunk(chunk);
        return true;
      }
      times.charge(null);
      records = List.of();
      nextRecord = 0;
      if (firstRange == null) {
        finish();
        continue;
      }
      switch (firstRange.state) {
        case PENDING -> begin();
        case READING -> poll(firstRange);
        case RECEIVED -> ranges.removeFirst();
        case HANDED_OVER -> {
          ranges.removeFirst();
          times.charge(firstRange);
          sparkRanges.open(firstRange);
          if (hasEnded()) {
            sparkRanges.close();
            throw new IllegalStateException("the reader is closed");
          }
          return true;
        }
      }
    }
    return false;
  }

  private void startChunk(Chunk chunk) {
    RangeCursor cursor = chunk.cursor();
    times.charge(cursor);
    records = chunk.records();
    nextRecord = 0;
    long bytes = 0;
    for (ConsumerRecord<byte[], byte[]> record : records) {
      bytes += PartitionPosition.serializedBytes(record);
      cursor.addTimestamp(record.timestamp());
    }
    cursor.recordCount += records.size();
    cursor.bytes += bytes;
    ReaderCounters.RECORDS.add(records.size());
    ReaderCounters.RECORD_BYTES.add(bytes);
  }

  private void begin() {
    List<RangeCursor> begunRanges = ranges.begin();
    List<Chunk> keptChunks = new ArrayList<>();
    try {
      if (recordRow == null) {
        takeConsumer(begunRanges);
      }
      withConsumer(pooledConsumer -> pooledConsumer.begin(begunRanges, ranges.heldBytes(), keptChunks));
    } catch (LinkageError e) { // an incompatible Spark; these ranges have returned no record yet
      int count = ranges.handOverAll(begunRanges);
      LOG.warn("Spark's own reader reads the remaining ranges: this Spark is incompatible", e);
      ReaderCounters.HANDED_OVER_RANGES.add(count);
      return;
    }
    times.splitByRecords(keptChunks);
    ranges.addRecords(keptChunks);
    waitedNanos = 0;
  }

  private void takeConsumer(List<RangeCursor> begunRanges) {
    KafkaBatchInputPartition partition = begunRanges.get(0).sparkPartition; // like all others
    long timeoutMs = partition.pollTimeoutMs();
    maxWaitNanos =
        TimeUnit.MILLISECONDS.toNanos(
            Math.max(Math.min(timeoutMs, SHORT_TIMEOUT_MILLIS), timeoutMs / 2));
    recordRow = new RecordRow(partition.includeHeaders());
    boolean isRetry = context != null && context.attemptNumber() > 0;
    ConsumerPool pool = ConsumerPool.shared();
    pool.closeEnded(endedStreams);
    consumer.set(pool.take(task.stream(), task.slot(), paramsWithRack(partition), begunRanges, isRetry));
    withConsumer(PooledConsumer::beginUse);
  }

  /**
   * Runs work with the consumer. Closes it after an error, because polled records may be lost, and
   * after the end of the task. A thread that still reads then fails.
   */
  private void withConsumer(Consumer<PooledConsumer> work) {
    PooledConsumer pooledConsumer = consumer.getAndSet(null);
    if (pooledConsumer == null) {
      throw new IllegalStateException("the reader is closed");
    }
    boolean hasSucceeded = false;
    try {
      work.accept(pooledConsumer);
      hasSucceeded = true;
    } finally {
      if (hasSucceeded) {
        consumer.set(pooledConsumer);
        if (hasEnded()) { // the task ended meanwhile
          discardConsumer();
        }
      } else {
        ConsumerPool.shared().discard(pooledConsumer);
      }
    }
  }

  /** Returns whether the task has ended, even if it ended before Spark got this reader. */
  private boolean hasEnded() {
    return closed || (context != null && context.isCompleted());
  }

  /** Returns Kafka's parameters; adds the executor's rack if unset, to read from near replicas. */
  private Map<String, Object> paramsWithRack(KafkaBatchInputPartition partition) {
    Map<String, Object> params = partition.executorKafkaParams();
    if (rack != null && !params.containsKey(ConsumerConfig.CLIENT_RACK_CONFIG)) {
      params = new HashMap<>(params);
      params.put(ConsumerConfig.CLIENT_RACK_CONFIG, rack);
    }
    return params;
  }

  private void poll(RangeCursor firstRange) {
    if (context != null) {
      context.killTaskIfInterrupted();
    }
    withConsumer(pooledConsumer -> poll(pooledConsumer, firstRange));
  }

  private void poll(PooledConsumer pooledConsumer, RangeCursor firstRange) {
    long startNanos = System.nanoTime();
    List<Chunk> polledChunks = new ArrayList<>();
    boolean hasProgress;
    try {
      hasProgress = pooledConsumer.poll(POLL_LIMIT, ranges.heldBytes(), polledChunks);
    } catch (OffsetOutOfRangeException e) {
      hasProgress = handOver(pooledConsumer, e.offsetOutOfRangePartitions().keySet(), e.getMessage());
    }
    times.splitByRecords(polledChunks);
    ranges.addRecords(polledChunks);
    waitedNanos = hasProgress ? 0 : waitedNanos + System.nanoTime() - startNanos;
    if (!hasProgress && waitedNanos >= maxWaitNanos) {
      String reason = "no record arrived for " + waitedNanos / 1_000_000 + " ms";
      handOver(pooledConsumer, Set.of(firstRange.partition), reason);
      // The other partitions have waited just as long; give them time in case the broker is back.
      waitedNanos = Math.max(0, maxWaitNanos - GRACE_NANOS);
    }
    pooledConsumer.fitBuffers(ranges.heldBytes());
  }

  /** Hands unfinished ranges over to Spark's reader; returns whether there were any. */
  private boolean handOver(PooledConsumer pooledConsumer, Set<TopicPartition> partitions, String reason) {
    List<RangeCursor> unfinishedRanges = pooledConsumer.handOver(partitions);
    for (RangeCursor range : unfinishedRanges) {
      LOG.warn("Spark's own reader continues {} at offset {}: {}", range, range.handedOverFrom, reason);
      ReaderCounters.HANDED_OVER_RANGES.increment();
    }
    return !unfinishedRanges.isEmpty();
  }

  private void finish() {
    isFinished = true;
    PooledConsumer pooledConsumer = consumer.getAndSet(null);
    if (pooledConsumer != null) {
      long millis = (System.nanoTime() - startedNanos) / 1_000_000;
      int rangeCount = unreportedRanges.size();
      LOG.info("Finished in {} ms with a {}, ranges read: {}", millis, pooledConsumer, rangeCount);
      giveBack(pooledConsumer);
    }
    unreportedRanges.forEach(this::report);
  }

  private void report(RangeCursor range) {
    reportSink.accept(
        new ReadReport(
            task.plan(),
            task.index(),
            task.executor(),
            SparkEnv.get().executorId(),
            range.partition.topic(),
            range.partition.partition(),
            range.recordCount,
            range.bytes,
            range.nanos,
            range.coldNanos,
            range.end - range.start,
            range.end,
            range.oldestMillis,
            range.newestMillis,
            range.lostOffsets));
  }
}
