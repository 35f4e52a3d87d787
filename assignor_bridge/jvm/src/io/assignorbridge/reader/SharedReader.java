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
 * Reads all ranges of a task with one Kafka consumer and gives their rows in the order of the plan:
 * range after range, each by offset, whatever arrives first. Ranges are bounded, so it never waits at
 * the end of a log and never requests the log's ends. In any unusual case (offsets that are gone, a
 * partition without progress) Spark's own reader reads the rest of the range, in the range's place.
 * With `assignor.reader=spark` it reads all ranges from the start.
 */
public final class SharedReader implements PartitionReader<InternalRow> {
  private static final Logger LOG = LoggerFactory.getLogger(SharedReader.class);

  private static final Duration POLL_LIMIT = Duration.ofMillis(100); // a killed task waits so long
  private static final long SHORT_TIMEOUT_MILLIS = 10_000; // up to it a range gets all of its time
  private static final long MOMENT_NANOS = 2_000_000_000L;

  private final AssignedInputPartition task;
  private final SparkRanges spark;
  private final String rack; // null: unknown
  private final Consumer<ReadReport> reports;
  private final Consumer<Map<Integer, Long>> received;
  private final TaskContext context = TaskContext.get();
  private final Collection<String> endedStreams;
  private final List<RangeCursor> unreported = new ArrayList<>();
  private final OrderedRanges ranges = new OrderedRanges();
  private final ReadTimes times = new ReadTimes();
  private final long startedNanos = System.nanoTime();

  /**
   * Empty while the consumer is in use: a thread that pipes the task's rows may outlive the task. Who
   * takes it out puts it back, or gives it to the pool.
   */
  private final AtomicReference<PooledConsumer> consumer = new AtomicReference<>();

  private volatile boolean closed;
  private RecordRow view;
  private List<ConsumerRecord<byte[], byte[]>> records = List.of();
  private int nextRecord;
  private InternalRow row;
  private long waitedNanos;
  private long patienceNanos;
  private boolean finished;

  /**
   * Prepares to read; the first call of {@link #next} opens what is needed.
   *
   * @param sparksReaders makes Spark's own reader of a range
   * @param shared false to leave all ranges to Spark's readers
   * @param endedStreams streams of this driver that will have no further task
   * @param rack where this executor is, null: unknown
   * @param reports gets one report for each range that was read to its end, the last with the task
   * @param received gets the bytes that came over the network, by id of broker, if the rack is known
   */
  public SharedReader(
      AssignedInputPartition task,
      PartitionReaderFactory sparksReaders,
      boolean shared,
      Collection<String> endedStreams,
      String rack,
      Consumer<ReadReport> reports,
      Consumer<Map<Integer, Long>> received) {
    this.task = task;
    this.spark = new SparkRanges(sparksReaders);
    this.endedStreams = endedStreams;
    this.rack = rack;
    this.reports = reports;
    this.received = received;
    for (int i = 0; i < task.ranges().length; i++) {
      RangeCursor cursor = new RangeCursor(i, task.ranges()[i]);
      unreported.add(cursor);
      // Spark's reader resolves "earliest" and "latest", which are below 0, itself.
      if (!shared || cursor.start < 0 || cursor.until < 0) {
        cursor.handOver(cursor.start);
        ranges.add(cursor);
      } else if (cursor.start < cursor.until) {
        ranges.add(cursor);
      }
    }
  }

  @Override
  public boolean next() throws IOException {
    do {
      if (nextRecord < records.size()) {
        row = view.of(records.get(nextRecord++));
        return true;
      }
      if (spark.isOpen()) {
        row = spark.next();
        if (row != null) {
          return true;
        }
        times.charge(null);
        report(spark.range());
        unreported.remove(spark.range());
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
    return spark.metrics();
  }

  @Override
  public void close() throws IOException {
    closed = true;
    try {
      spark.close();
    } finally {
      leaveConsumer();
    }
  }

  /**
   * Gives back a consumer that has received all ranges although a limit ended the task. In all other
   * cases (an error, a kill, unfinished ranges) it is closed, by the thread that uses it if one does.
   */
  private void leaveConsumer() {
    PooledConsumer unused = consumer.getAndSet(null);
    if (unused == null) {
      return;
    }
    boolean hasFailed = context == null || context.isFailed() || context.isInterrupted();
    if (hasFailed || unused.isReading()) {
      ConsumerPool.shared().discard(unused);
    } else {
      giveBack(unused);
    }
  }

  private void giveBack(PooledConsumer unused) {
    if (rack != null) {
      received.accept(unused.takeReceived());
    }
    ConsumerPool.shared().giveBack(unused);
  }

  private void discardConsumer() {
    PooledConsumer unfinished = consumer.getAndSet(null);
    if (unfinished != null) {
      ConsumerPool.shared().discard(unfinished);
    }
  }

  /** Moves on to the next records, of our consumer or Spark's reader; false after the last ones. */
  private boolean advance() throws IOException {
    while (!finished) {
      RangeCursor first = ranges.first();
      Chunk chunk = first == null ? null : first.chunks.poll();
      if (chunk != null) {
        show(chunk);
        return true;
      }
      times.charge(null);
      records = List.of();
      nextRecord = 0;
      if (first == null) {
        finish();
        continue;
      }
      switch (first.state) {
        case PENDING -> begin();
        case READING -> poll(first);
        case RECEIVED -> ranges.removeFirst();
        case HANDED_OVER -> {
          ranges.removeFirst();
          times.charge(first);
          spark.open(first);
          if (hasEnded()) {
            spark.close();
            throw new IllegalStateException("the reader is closed");
          }
          return true;
        }
      }
    }
    return false;
  }

  private void show(Chunk chunk) {
    RangeCursor cursor = chunk.cursor();
    times.charge(cursor);
    records = chunk.records();
    nextRecord = 0;
    long bytes = 0;
    for (ConsumerRecord<byte[], byte[]> one : records) {
      bytes += PartitionPosition.size(one);
      cursor.stamp(one.timestamp());
    }
    cursor.records += records.size();
    cursor.bytes += bytes;
    ReaderCounters.RECORDS.add(records.size());
    ReaderCounters.RECORD_BYTES.add(bytes);
  }

  private void begin() {
    List<RangeCursor> begun = ranges.begin();
    List<Chunk> kept = new ArrayList<>();
    try {
      if (view == null) {
        takeConsumer(begun);
      }
      use(current -> current.begin(begun, ranges.heldBytes(), kept));
    } catch (LinkageError e) { // another Spark; no record of the unfinished ranges was given yet
      int count = ranges.handOverAll(begun);
      LOG.warn("Spark's own reader reads {} ranges: the shared reader does not fit", count, e);
      ReaderCounters.HANDED_OVER.add(count);
      return;
    }
    times.share(kept);
    ranges.addRecords(kept);
    waitedNanos = 0;
  }

  private void takeConsumer(List<RangeCursor> ranges) {
    KafkaBatchInputPartition any = ranges.get(0).range;
    long limit = any.pollTimeoutMs();
    patienceNanos =
        TimeUnit.MILLISECONDS.toNanos(Math.max(Math.min(limit, SHORT_TIMEOUT_MILLIS), limit / 2));
    view = new RecordRow(any.includeHeaders());
    boolean again = context != null && context.attemptNumber() > 0;
    ConsumerPool pool = ConsumerPool.shared();
    pool.closeEnded(endedStreams);
    consumer.set(pool.take(task.stream(), task.slot(), params(any), ranges, again));
    use(PooledConsumer::beginUse);
  }

  /**
   * Works with the consumer. After an error, which may have lost polled records, and at the end of the
   * task it is closed, and a thread that reads on fails.
   */
  private void use(Consumer<PooledConsumer> work) {
    PooledConsumer current = consumer.getAndSet(null);
    if (current == null) {
      throw new IllegalStateException("the reader is closed");
    }
    boolean done = false;
    try {
      work.accept(current);
      done = true;
    } finally {
      if (done) {
        consumer.set(current);
        if (hasEnded()) { // the end of the task saw no consumer
          discardConsumer();
        }
      } else {
        ConsumerPool.shared().discard(current);
      }
    }
  }

  /** Whether the task has ended, even if it did so before Spark knew this reader. */
  private boolean hasEnded() {
    return closed || (context != null && context.isCompleted());
  }

  /** With the executor's rack, from which brokers choose the replica to read; the user's has priority. */
  private Map<String, Object> params(KafkaBatchInputPartition range) {
    Map<String, Object> params = range.executorKafkaParams();
    if (rack != null && !params.containsKey(ConsumerConfig.CLIENT_RACK_CONFIG)) {
      params = new HashMap<>(params);
      params.put(ConsumerConfig.CLIENT_RACK_CONFIG, rack);
    }
    return params;
  }

  private void poll(RangeCursor first) {
    if (context != null) {
      context.killTaskIfInterrupted();
    }
    use(current -> poll(current, first));
  }

  private void poll(PooledConsumer current, RangeCursor first) {
    long before = System.nanoTime();
    List<Chunk> polled = new ArrayList<>();
    boolean forward;
    try {
      forward = current.poll(POLL_LIMIT, ranges.heldBytes(), polled);
    } catch (OffsetOutOfRangeException e) {
      forward = giveUp(current, e.offsetOutOfRangePartitions().keySet(), e.getMessage());
    }
    times.share(polled);
    ranges.addRecords(polled);
    waitedNanos = forward ? 0 : waitedNanos + System.nanoTime() - before;
    if (!forward && waitedNanos >= patienceNanos) {
      String why = "no record arrived for " + waitedNanos / 1_000_000 + " ms";
      giveUp(current, Set.of(first.partition), why);
      // The others have waited as long; they get a moment to follow if the broker is back.
      waitedNanos = Math.max(0, patienceNanos - MOMENT_NANOS);
    }
    current.fitBuffers(ranges.heldBytes());
  }

  /** Leaves the rest of unfinished ranges to Spark's reader; whether there was one. */
  private boolean giveUp(PooledConsumer current, Set<TopicPartition> partitions, String why) {
    List<RangeCursor> unfinished = current.giveUp(partitions);
    for (RangeCursor range : unfinished) {
      LOG.warn("Spark's own reader continues {} at offset {}: {}", range, range.rest, why);
      ReaderCounters.HANDED_OVER.increment();
    }
    return !unfinished.isEmpty();
  }

  private void finish() {
    finished = true;
    PooledConsumer whole = consumer.getAndSet(null);
    if (whole != null) {
      long millis = (System.nanoTime() - startedNanos) / 1_000_000;
      LOG.info("Read {} ranges in {} ms with a {}", unreported.size(), millis, whole);
      giveBack(whole);
    }
    unreported.forEach(this::report);
  }

  private void report(RangeCursor range) {
    reports.accept(
        new ReadReport(
            task.plan(),
            task.index(),
            task.executor(),
            SparkEnv.get().executorId(),
            range.partition.topic(),
            range.partition.partition(),
            range.records,
            range.bytes,
            range.nanos,
            range.until - range.start,
            range.until,
            range.oldest,
            range.newest,
            range.lost));
  }
}
