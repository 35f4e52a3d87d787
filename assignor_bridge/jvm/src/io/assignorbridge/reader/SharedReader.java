package io.assignorbridge.reader;

import io.assignorbridge.AssignedInputPartition;
import io.assignorbridge.ReadReport;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Function1;

/**
 * Reads all ranges of a task with one Kafka consumer. Ranges are bounded, so it never waits at the
 * end of a log and never asks for the log's ends. Whatever is out of the ordinary (offsets that are
 * gone, a partition that does not come forward) is not judged here: what is left of the range goes
 * to Spark's own reader.
 */
public final class SharedReader implements PartitionReader<InternalRow> {
  private static final Logger LOG = LoggerFactory.getLogger(SharedReader.class);

  /** How long one poll may keep a killed task waiting. */
  private static final long POLL_SLICE_MILLIS = 100;

  /** Below it a range is handed over only after the user's whole poll time-out. */
  private static final long SHORT_TIMEOUT_MILLIS = 10_000;

  private static final long MOMENT_NANOS = 2_000_000_000L;

  private final AssignedInputPartition task;
  private final Consumer<ReadReport> reports;
  private final TaskContext context = TaskContext.get();
  private final List<RangeCursor> cursors = new ArrayList<>();

  /** Ranges of one wave are of different partitions; further ranges of a partition come later. */
  private final ArrayDeque<List<RangeCursor>> waves = new ArrayDeque<>();

  private final ArrayDeque<Chunk> chunks = new ArrayDeque<>();
  private final ArrayDeque<Map.Entry<RangeCursor, Long>> handedOver = new ArrayDeque<>();
  private final Map<String, Long> closedMetrics = new LinkedHashMap<>();
  private final ReadMeter meter = new ReadMeter();
  private final long startedNanos = System.nanoTime();
  private final Function1<ConsumerRecord<byte[], byte[]>, UnsafeRow> toRow;
  private final long patienceNanos;

  /**
   * Whoever takes it out gives it back or closes it: a thread that pipes rows to another process may
   * still read when the task closes the reader.
   */
  private final AtomicReference<PooledConsumer> consumer = new AtomicReference<>();

  private volatile boolean closed;
  private SparkRangeReader spark;
  private List<ConsumerRecord<byte[], byte[]>> records = List.of();
  private int nextRecord;
  private InternalRow row;
  private long waitedNanos;
  private long delivered;
  private boolean finished;

  /**
   * Prepares to read; the first call of {@link #next} opens what is needed.
   *
   * @param task the ranges, and the stream and slot whose consumer reads them
   * @param endedStreams streams of this driver that will have no further task
   * @param reports gets one report for each range, when all are read
   */
  public SharedReader(
      AssignedInputPartition task,
      Collection<String> endedStreams,
      Consumer<ReadReport> reports) {
    ConsumerPool.shared().forget(endedStreams);
    this.task = task;
    this.reports = reports;
    List<RangeCursor> regular = new ArrayList<>();
    for (KafkaBatchInputPartition range : task.ranges()) {
      RangeCursor cursor = new RangeCursor(range);
      cursors.add(cursor);
      if (!cursor.isResolved()) {
        handedOver.add(Map.entry(cursor, cursor.start));
      } else if (cursor.start < cursor.until) {
        regular.add(cursor);
      }
    }
    waves.addAll(wavesOf(regular));
    boolean headers = task.ranges().length > 0 && task.ranges()[0].includeHeaders();
    this.toRow = new KafkaRecordToRowConverter().toUnsafeRowProjector(headers);
    long timeoutMillis = task.ranges().length > 0 ? task.ranges()[0].pollTimeoutMs() : 0;
    this.patienceNanos =
        Duration.ofMillis(
                Math.max(Math.min(timeoutMillis, SHORT_TIMEOUT_MILLIS), timeoutMillis / 2))
            .toNanos();
  }

  @Override
  public boolean next() throws IOException {
    while (true) {
      if (nextRecord < records.size()) {
        row = toRow.apply(records.get(nextRecord++));
        return true;
      }
      if (spark != null) {
        if (spark.next()) {
          row = spark.get();
          return true;
        }
        closeSpark();
      }
      if (!advance()) {
        return false;
      }
    }
  }

  @Override
  public InternalRow get() {
    return row;
  }

  /** The metrics of Spark's reader: sums, for Spark sets a task's metric values. */
  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    Map<String, Long> sums = new LinkedHashMap<>(closedMetrics);
    sums.putIfAbsent("offsetOutOfRange", 0L);
    sums.putIfAbsent("dataLoss", 0L);
    if (spark != null) {
      spark.addMetricsTo(sums);
    }
    return sums.entrySet().stream()
        .map(entry -> new TaskMetric(entry.getKey(), entry.getValue()))
        .toArray(CustomTaskMetric[]::new);
  }

  @Override
  public void close() throws IOException {
    closed = true;
    try {
      if (spark != null) {
        closeSpark();
      }
    } finally {
      discardConsumer(); // one that is left did not read to the ends: an error, kill or limit
    }
  }

  private void discardConsumer() {
    PooledConsumer unfinished = consumer.getAndSet(null);
    if (unfinished != null) {
      ConsumerPool.shared().discard(unfinished);
    }
  }

  /** Moves on to the next chunk, handed-over range, poll or wave; false when all is read. */
  private boolean advance() throws IOException {
    if (finished) {
      return false;
    }
    while (true) {
      Chunk chunk = chunks.poll();
      if (chunk != null) {
        show(chunk);
        return true;
      }
      meter.charge(null);
      records = List.of();
      nextRecord = 0;
      if (!handedOver.isEmpty()) {
        openSpark(handedOver.poll());
        return true;
      }
      PooledConsumer current = consumer.get();
      if (current != null && current.isReading()) {
        poll(current);
      } else if (!waves.isEmpty()) {
        begin(waves.poll());
      } else {
        finish();
        return false;
      }
    }
  }

  private void show(Chunk chunk) {
    meter.charge(chunk.cursor());
    records = chunk.records();
    nextRecord = 0;
    long bytes = 0;
    for (ConsumerRecord<byte[], byte[]> one : records) {
      bytes += Standing.size(one);
    }
    chunk.cursor().records += records.size();
    chunk.cursor().bytes += bytes;
    delivered += records.size();
    ReaderCounters.RECORDS.add(records.size());
    ReaderCounters.RECORD_BYTES.add(bytes);
  }

  private void begin(List<RangeCursor> wave) {
    List<Chunk> kept = new ArrayList<>();
    try {
      consumerFor(wave).begin(wave, kept);
    } catch (LinkageError e) { // another Spark; no record of the wave has been given yet
      discardConsumer();
      LOG.warn(
          "Spark's own reader reads {} ranges of this task, for the shared one does not fit: {}",
          wave.size(),
          e.toString());
      ReaderCounters.HANDED_OVER.add(wave.size());
      wave.forEach(cursor -> handedOver.add(Map.entry(cursor, cursor.start)));
      return;
    }
    meter.share(kept);
    chunks.addAll(kept);
    waitedNanos = 0;
  }

  private PooledConsumer consumerFor(List<RangeCursor> wave) {
    PooledConsumer current = consumer.get();
    if (current == null) {
      boolean again = context != null && context.attemptNumber() > 0;
      Map<String, Object> params = wave.get(0).range.executorKafkaParams();
      current = ConsumerPool.shared().take(task.stream(), task.slot(), params, wave, again);
      consumer.set(current);
      if (closed) { // by the end of the task, which saw no consumer
        discardConsumer();
        throw new IllegalStateException("the reader is closed");
      }
      current.beginUse();
    }
    return current;
  }

  private void poll(PooledConsumer current) {
    if (context != null) {
      context.killTaskIfInterrupted();
    }
    long before = System.nanoTime();
    List<Chunk> polled = new ArrayList<>();
    boolean forward;
    try {
      forward = current.poll(Duration.ofMillis(POLL_SLICE_MILLIS), polled);
    } catch (OffsetOutOfRangeException e) {
      Map<RangeCursor, Long> left = current.giveUp(e);
      left.forEach((cursor, offset) -> handOver(cursor, offset, e.getMessage()));
      forward = !left.isEmpty();
    }
    meter.share(polled);
    chunks.addAll(polled);
    if (forward) {
      waitedNanos = 0;
      return;
    }
    waitedNanos += System.nanoTime() - before;
    if (waitedNanos >= patienceNanos) {
      Map.Entry<RangeCursor, Long> first = current.giveUpFirst();
      handOver(first.getKey(), first.getValue(), "nothing came for " + waitedNanos / 1_000_000 + " ms");
      // The others have waited as long; they get a moment to follow if the broker is back.
      waitedNanos = Math.max(0, patienceNanos - MOMENT_NANOS);
    }
  }

  private void handOver(RangeCursor cursor, long offset, String why) {
    LOG.warn("Spark's own reader goes on with {} from offset {}: {}", cursor, offset, why);
    ReaderCounters.HANDED_OVER.increment();
    handedOver.add(Map.entry(cursor, offset));
  }

  private void openSpark(Map.Entry<RangeCursor, Long> left) {
    meter.charge(left.getKey());
    spark = new SparkRangeReader(left.getKey(), left.getValue());
  }

  private void closeSpark() throws IOException {
    SparkRangeReader done = spark;
    spark = null;
    done.addMetricsTo(closedMetrics);
    done.close();
  }

  private void finish() {
    finished = true;
    PooledConsumer done = consumer.getAndSet(null);
    if (done != null) {
      LOG.info(
          "Read {} records of {} ranges in {} ms with a {}",
          delivered,
          cursors.size(),
          (System.nanoTime() - startedNanos) / 1_000_000,
          done);
      ConsumerPool.shared().giveBack(done);
    }
    String executor = SparkEnv.get().executorId();
    for (RangeCursor cursor : cursors) {
      reports.accept(
          new ReadReport(
              task.plan(),
              task.index(),
              task.executor(),
              executor,
              cursor.partition.topic(),
              cursor.partition.partition(),
              cursor.records,
              cursor.bytes,
              cursor.nanos,
              cursor.until - cursor.start));
    }
  }

  private static List<List<RangeCursor>> wavesOf(List<RangeCursor> ranges) {
    Map<TopicPartition, Integer> seen = new HashMap<>();
    List<List<RangeCursor>> waves = new ArrayList<>();
    for (RangeCursor range : ranges) {
      int wave = seen.merge(range.partition, 1, Integer::sum) - 1;
      if (wave == waves.size()) {
        waves.add(new ArrayList<>());
      }
      waves.get(wave).add(range);
    }
    return waves;
  }

  private record TaskMetric(String name, long value) implements CustomTaskMetric {}
}
