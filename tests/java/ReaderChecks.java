package io.assignorbridge.reader;

import static io.assignorbridge.reader.FakeKafka.check;

import io.assignorbridge.model.AssignedInputPartition;
import io.assignorbridge.model.ReadReport;
import io.assignorbridge.reader.RangeCursor.Chunk;
import io.assignorbridge.reader.RangeCursor.State;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** What the shared reader's consumers hold and ask for. Arguments name the checks to run. */
public final class ReaderChecks {
  private static final long MIB = 1 << 20;
  private static final long BUFFER = 16 * MIB;
  private static final Duration NOW = Duration.ZERO;

  /** Of three rows each, whatever the range; each has lost two offsets. */
  private static final PartitionReaderFactory SPARKS =
      partition ->
          new PartitionReader<>() {
            private int row = -1;

            @Override
            public boolean next() {
              return ++row < 3;
            }

            @Override
            public InternalRow get() {
              return new GenericInternalRow(new Object[] {row, null, null, null, null, 1000L});
            }

            @Override
            public void close() {}

            @Override
            public CustomTaskMetric[] currentMetricsValues() {
              return new CustomTaskMetric[] {
                new CustomTaskMetric() {
                  @Override
                  public String name() {
                    return "dataLoss";
                  }

                  @Override
                  public long value() {
                    return 2;
                  }
                }
              };
            }
          };

  /** Rows of a range by its offsets. */
  private static final PartitionReaderFactory OFFSETS =
      partition ->
          new PartitionReader<>() {
            private final KafkaOffsetRange range = ((KafkaBatchInputPartition) partition).offsetRange();
            private long offset = range.fromOffset() - 1;

            @Override
            public boolean next() {
              return ++offset < range.untilOffset();
            }

            @Override
            public InternalRow get() {
              TopicPartition of = range.topicPartition();
              UTF8String topic = UTF8String.fromString(of.topic());
              return new GenericInternalRow(
                  new Object[] {null, null, topic, of.partition(), offset, 1000L});
            }

            @Override
            public void close() {}
          };

  /** Every consumer that was made, the last one last. */
  private final List<FakeKafka> made = new ArrayList<>();

  private int recordsPerBatch = 10;
  private int recordBytes = 100;
  private int headerBytes;
  private boolean remote;
  private Random disorder;

  public static void main(String[] names) throws Exception {
    SparkConf conf = new SparkConf(false);
    conf.contains("spark.app.name"); // loads Spark's settings, which must not find an environment
    SparkEnv.set(
        new SparkEnv("0", null, null, null, null, null, null, null, null, null, null, conf));
    for (String name : names) {
      try {
        ReaderChecks.class.getDeclaredMethod(name).invoke(new ReaderChecks());
        System.out.println(name + " ok");
      } catch (java.lang.reflect.InvocationTargetException e) {
        System.out.println(name + " " + e.getCause());
        e.getCause().printStackTrace();
      }
    }
    System.exit(0);
  }

  void rowsAreThoseOfSparksConverter() {
    for (int seed = 0; seed < 20; seed++) {
      RowChecks.compare(seed, seed % 2 == 0);
    }
  }

  void truncationOfARangeThatIsReadIsRaisedOnce() {
    PooledConsumer consumer = consumer(2, Map.of());
    consumer.beginUse();
    consumer.begin(ranges(2, 0, 1_000), 0, new ArrayList<>());
    last().truncated.add(partition(0));
    int raised = 0;
    for (int i = 0; i < 5; i++) {
      try {
        consumer.poll(NOW, 0, new ArrayList<>());
      } catch (LogTruncationException e) {
        check(consumer.handOver(e.offsetOutOfRangePartitions().keySet()).size() == 1 - raised, "nothing is left of a range given up before");
        raised++;
      }
    }
    check(raised == 1, "raised " + raised + " times");
  }

  void largeBatchesComeManyInAnAnswer() {
    recordsPerBatch = 8;
    recordBytes = 64 << 10; // 512 KiB a batch, of which 32 KiB are asked for at first
    PooledConsumer consumer = consumer(500, Map.of());
    readOnce(consumer, 500, 0, 8);
    int polls = made.stream().mapToInt(one -> one.polls).sum();
    check(polls <= 60, polls + " answers for 500 partitions");
    check(last().mostFetched * last().partitionBytes <= 16 * MIB, "too much was asked for at a time");
    check(made.size() == 2 && made.get(0).closed, made.size() + " consumers");
    readOnce(consumer, 500, 8, 16);
    check(made.size() == 2, "a third consumer");
  }

  void smallBatchesOfManyPartitionsComeInFewAnswers() {
    PooledConsumer consumer = consumer(2_500, Map.of());
    readOnce(consumer, 2_500, 0, 10);
    check(made.size() == 1, made.size() + " consumers");
    check(last().polls <= 5, last().polls + " answers for 2,500 partitions");
    check(last().partitionBytes <= 32 << 10, "larger fetches than the buffer has room for");
  }

  void aRemoteTierOfOnePartitionAnAnswerIsReadInLargeFetches() {
    recordsPerBatch = 16; // 16 KiB a batch
    recordBytes = 1 << 10;
    remote = true;
    PooledConsumer consumer = consumer(500, Map.of());
    readOnce(consumer, 500, 0, 2_048); // 2 MiB each: 1,000 answers to Spark's fetches of 1 MiB
    int answers = made.stream().mapToInt(one -> one.polls).sum();
    check(answers <= 1_300, answers + " answers");
    check(last().mostFetched * last().partitionBytes <= 16 * MIB, "too much was asked for at a time");
    check(made.size() == 4, made.size() + " consumers"); // of 32, 128 and 512 KiB, and of 1 MiB
    remote = false;
    last().remote = false;
    readOnce(consumer, 500, 2_048, 2_064);
    check(last().partitionBytes < 64 << 10, "large fetches after the remote tier");
    int clients = made.size();
    for (int start = 2_064; start < 2_128; start += 16) {
      readOnce(consumer, 500, start, start + 16);
    }
    check(made.size() == clients, "another consumer");
  }

  void smallRangesInARemoteTierAreReadInSmallFetches() {
    remote = true;
    PooledConsumer consumer = consumer(500, Map.of());
    readOnce(consumer, 500, 0, 10);
    check(made.size() == 1, made.size() + " consumers");
  }

  void longRangesOfManyPartitionsAreReadFewAtATimeInLargeFetches() {
    recordsPerBatch = 16;
    recordBytes = 1 << 10;
    PooledConsumer consumer = consumer(500, Map.of());
    readOnce(consumer, 500, 0, 2_048); // 2.4 MB of heap each, 7 of which fit the buffer
    check(made.size() == 2, made.size() + " consumers");
    check(last().mostFetched <= 8, last().mostFetched + " partitions at a time");
    check(last().polls <= 400, last().polls + " answers");
    readOnce(consumer, 500, 2_048, 4_096);
    check(made.size() == 2, made.size() + " consumers after the second batch");
  }

  void oneLongRangeAmongManyShortOnesLeavesThemTogether() {
    for (int hot : new int[] {0, 499}) {
      made.clear();
      PooledConsumer consumer = consumer(500, Map.of());
      long[] next = new long[500];
      for (int batch = 0; batch < 4; batch++) {
        int polls = made.stream().mapToInt(one -> one.polls).sum();
        List<RangeCursor> ranges = new ArrayList<>();
        for (int i = 0; i < 500; i++) {
          ranges.add(range(i, next[i], next[i] += i == hot ? 20_000 : 10));
        }
        readAll(consumer, ranges);
        int more = made.stream().mapToInt(one -> one.polls).sum() - polls;
        check(more <= 80, more + " answers, " + hot + " is hot"); // 65 of them for its 2 MB
      }
      check(made.size() == 1, made.size() + " consumers, " + hot + " is hot");
    }
  }

  void recordsThatArriveEarlyStayWithinTheBuffer() {
    recordBytes = 1 << 10;
    PooledConsumer consumer = consumer(40, Map.of());
    readOnce(consumer, 40, 0, 1_000); // 1.2 MB of heap each
    consumer.beginUse();
    OrderedRanges ordered = new OrderedRanges();
    ranges(40, 1_000, 3_000).forEach(ordered::add);
    List<Chunk> chunks = new ArrayList<>();
    consumer.begin(ordered.begin(), 0, chunks);
    ordered.addRecords(chunks);
    last().silent.add(partition(0)); // the first range waits for its broker
    for (int polls = 0; polls < 100; polls++) {
      chunks.clear();
      check(!consumer.poll(NOW, ordered.heldBytes(), chunks), "progress of the first range");
      ordered.addRecords(chunks);
      consumer.fitBuffers(ordered.heldBytes());
    }
    check(ordered.heldBytes() >= BUFFER / 2, ordered.heldBytes() + " bytes are held");
    check(ordered.heldBytes() <= 2 * BUFFER, ordered.heldBytes() + " bytes are held");
    check(last().fetched.equals(Set.of(partition(0))), "" + last().fetched);
  }

  void aPartitionThatIsPausedInMidRangeKeepsItsMark() {
    recordBytes = 100_000; // 1 MB a fetch; the guess for ranges of 20 records is far too low
    PooledConsumer consumer = consumer(16, Map.of());
    consumer.beginUse();
    List<Chunk> chunks = new ArrayList<>();
    consumer.begin(ranges(16, 0, 1_000), 0, chunks);
    check(last().fetched.size() == 16, last().fetched.size() + " are fetched at first");
    consumer.poll(NOW, 0, chunks);
    consumer.fitBuffers(0);
    check(last().fetched.equals(Set.of(partition(0))), "" + last().fetched);
    long most = 0;
    for (int polls = 0; polls < 12; polls++) { // each short, so that partition 0 has nothing left
      consumer.poll(NOW, 0, chunks);
      consumer.fitBuffers(0);
      consumer.becomeIdle();
      most = Math.max(most, consumer.idleBytes);
    }
    check(most >= 14 * MIB, "paused partitions are taken for empty: " + most);
    check(most <= 20 * MIB, most + " bytes");
    check(last().assigned.size() == 1, "the paused ones still hold what they had fetched");
  }

  /** Any order of arrival, kept records, replaced clients, hand-overs, two ranges of a partition. */
  void rowsComeInPlanOrderWhateverArrivesFirst() throws Exception {
    for (int seed = 0; seed < 150; seed++) {
      readInPlanOrder(new Random(seed), "seed " + seed);
    }
  }

  private void readInPlanOrder(Random random, String name) throws Exception {
    recordBytes = 1 + random.nextInt(200);
    headerBytes = random.nextInt(4) == 0 ? 50 : 0;
    recordsPerBatch = 1 + random.nextInt(20);
    long buffer = 1L << 12 + random.nextInt(10);
    setPool(new ConsumerPool(new SparkConf(false), buffer, 8 * MIB, maker()));
    disorder = random;
    int partitions = 1 + random.nextInt(12);
    long[] next = new long[partitions];
    for (int batch = 0; batch < 3; batch++) {
      List<KafkaOffsetRange> plan = new ArrayList<>();
      for (int i = random.nextInt(2 * partitions); i >= 0; i--) {
        int partition = random.nextInt(partitions);
        long until = next[partition] + random.nextInt(300);
        plan.add(
            new KafkaOffsetRange(partition(partition), next[partition], until, Option.empty()));
        next[partition] = until;
      }
      Collections.shuffle(plan, random); // a partition's ranges may come in any order
      List<String> expected = new ArrayList<>();
      for (KafkaOffsetRange range : plan) {
        for (long offset = range.fromOffset(); offset < range.untilOffset(); offset++) {
          expected.add(range.topicPartition() + "@" + offset);
        }
      }
      for (int action = 0; action < 2; action++) {
        check(rowsOf(plan, name).equals(expected), name + ", batch " + batch + " is out of order");
      }
    }
  }

  private static SharedReader readerOf(
      List<KafkaOffsetRange> plan, java.util.function.Consumer<ReadReport> reports) {
    KafkaBatchInputPartition[] ranges =
        plan.stream()
            .map(one -> new KafkaBatchInputPartition(one, params(Map.of()), 1, true, false))
            .toArray(KafkaBatchInputPartition[]::new);
    AssignedInputPartition task =
        new AssignedInputPartition("s", 1, 0, "0", 0, ranges, new String[0]);
    return new SharedReader(task, OFFSETS, true, List.of(), null, reports, bytes -> {});
  }

  private static List<String> rowsOf(List<KafkaOffsetRange> plan, String name) throws Exception {
    List<String> rows = new ArrayList<>();
    List<ReadReport> reports = new ArrayList<>();
    SharedReader reader = readerOf(plan, reports::add);
    while (reader.next()) {
      InternalRow row = reader.get();
      rows.add(row.getUTF8String(2) + "-" + row.getInt(3) + "@" + row.getLong(4));
    }
    reader.close();
    check(reports.size() == plan.size(), name + ": " + reports.size() + " reports");
    long reported = reports.stream().mapToLong(ReadReport::records).sum();
    check(reported == rows.size(), name + ": " + reported + " records are reported");
    return rows;
  }

  private static void setPool(ConsumerPool pool) throws Exception {
    Field field = ConsumerPool.class.getDeclaredField("instance");
    field.setAccessible(true);
    field.set(null, pool);
  }

  /** Records before their turn take heap with their objects and headers, not just their bytes. */
  void recordsThatWaitForTheirTurnAreCountedWhole() throws Exception {
    for (int headers : new int[] {0, 1}) {
      recordBytes = 20;
      headerBytes = headers;
      recordsPerBatch = 2_000;
      setPool(new ConsumerPool(new SparkConf(false), MIB, 8 * MIB, maker()));
      disorder = null;
      made.clear();
      List<KafkaBatchInputPartition> ranges = new ArrayList<>();
      for (int i = 0; i < 8; i++) {
        KafkaOffsetRange offsets =
            new KafkaOffsetRange(partition(i), 0, 100_000, Option.empty());
        ranges.add(new KafkaBatchInputPartition(offsets, params(Map.of()), 1_000, true, false));
      }
      SharedReader reader =
          new SharedReader(
              new AssignedInputPartition(
                  "s", 1, 0, "0", 0, ranges.toArray(KafkaBatchInputPartition[]::new), new String[0]),
              OFFSETS, true, List.of(), null, report -> {}, bytes -> {});
      long rows = 0;
      long taken = 0;
      while (reader.next()) {
        rows++;
        taken = Math.max(taken, made.stream().mapToLong(one -> one.taken).sum() - rows);
      }
      reader.close();
      check(rows == 800_000, rows + " rows");
      // One MiB of records of 180 bytes and more, what is kept beyond ends, and an answer.
      long most = 2 * MIB / (headers == 0 ? 180 : 330) + MIB / 20 + 20_000;
      check(taken <= most, taken + " records were in memory, at most " + most);
    }
  }

  void aConsumerOfFewPartitionsIsFittedToMany() {
    PooledConsumer consumer = consumer(2, Map.of());
    readOnce(consumer, 2, 0, 10);
    check(last().partitionBytes == MIB, "small fetches of two partitions");
    readOnce(consumer, 1_000, 10, 20);
    check(last().partitionBytes == 32 << 10, "large fetches of a thousand");
  }

  void whatKafkaHoldsOfPausedPartitionsIsBounded() {
    recordBytes = 40_000; // a batch is what one fetch brings, so nothing is kept
    PooledConsumer consumer = consumer(40, Map.of());
    readOnce(consumer, 40, 0, 10);
    Set<TopicPartition> before = new HashSet<>(last().assigned);
    check(before.size() == 40, "all are assigned");
    // Partition 0 goes on alone while an answer of all 40 may lie there for the other ones.
    for (int batch = 1; batch <= 10; batch++) {
      last().incoming += 4 * MIB;
      readOnce(consumer, 1, 10 * batch, 10 * batch + 10);
      consumer.becomeIdle();
      check(consumer.idleBytes <= 21 * MIB, consumer.idleBytes + " bytes are held");
    }
    check(last().assigned.size() == 1, last().assigned.size() + " are assigned");
    int seeks = last().seeks;
    readOnce(consumer, 40, 110, 120);
    check(last().seeks == seeks + 39, "those that were given up are read again, once");
  }

  void aLimitGivesAConsumerBackThatNobodyUsesAndThatHasReceivedAll() throws Exception {
    checkEnd("the end", 1, 5, reader -> close(reader)); // records of one poll
    checkEnd("the reader is closed", 0, 2_000, reader -> close(reader));
    // As the task's thread closes it while another one reads:
    checkEnd("the reader is closed", 0, 2_000, reader -> last().duringPoll = () -> close(reader));
    // As before Spark knew the reader, which a thread opened after the task's end:
    checkEnd(
        "the reader is closed",
        0,
        2_000,
        reader -> TaskContext.get().markTaskCompleted(Option.empty()));
    checkEnd(
        "polled",
        0,
        2_000,
        reader ->
            last().duringPoll =
                () -> {
                  throw new IllegalStateException("polled");
                });
  }

  /** Reads a row, lets something happen, and reads on; what the pool has and the reader says then. */
  private void checkEnd(
      String expected, int idle, int records, java.util.function.Consumer<SharedReader> event)
      throws Exception {
    recordBytes = 40_000; // many polls of a long range
    recordsPerBatch = 5;
    setPool(pool());
    TaskContext$.MODULE$.setTaskContext(TaskContext$.MODULE$.empty());
    String outcome = "the end";
    try {
      KafkaOffsetRange range = new KafkaOffsetRange(partition(0), 0, records, Option.empty());
      SharedReader reader = readerOf(List.of(range), report -> {});
      check(reader.next(), "no row");
      event.accept(reader);
      while (reader.next()) {}
    } catch (IllegalStateException e) {
      outcome = e.getMessage();
    } finally {
      TaskContext$.MODULE$.unset();
    }
    check(outcome.equals(expected), outcome + " instead of " + expected);
    check(ConsumerPool.shared().countIdle() == idle, ConsumerPool.shared().countIdle() + " are idle");
    long until = System.nanoTime() + 10_000_000_000L;
    while (last().closed != (idle == 0)) {
      check(System.nanoTime() < until, "closed: " + last().closed);
      Thread.onSpinWait();
    }
  }

  private static void close(SharedReader reader) {
    try {
      reader.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  void partitionsThatLeftTheStreamAreGivenUp() {
    PooledConsumer consumer = consumer(4, Map.of());
    readOnce(consumer, 4, 0, 10);
    for (int batch = 1; batch <= 32; batch++) {
      readOnce(consumer, 2, 10 * batch, 10 * batch + 10);
    }
    check(last().assigned.equals(Set.of(partition(0), partition(1))), "" + last().assigned);
    check(consumer.hasAnyPosition(ranges(4, 0, 1)), "no position within the ranges");
    check(!consumer.hasAnyPosition(List.of(range(3, 0, 1))), "partition 3 is still there");
  }

  void idleConsumersShareOneBound() {
    headerBytes = 40_000; // 8 records of 2.5 MB in all are kept for the next batch, most in headers
    recordsPerBatch = 60;
    ConsumerPool pool = pool();
    List<PooledConsumer> taken = new ArrayList<>();
    for (int slot = 0; slot < 10; slot++) {
      PooledConsumer one = pool.take("s", slot, params(Map.of()), ranges(1, 0, 5), false);
      readOnce(one, 1, 0, 5);
      taken.add(one);
    }
    long each = 0;
    for (PooledConsumer one : taken) {
      pool.giveBack(one);
      each = Math.max(each, one.idleBytes);
    }
    check(each > 55 * 40_000, "headers are not counted: " + each);
    check(pool.idleBytes() <= 8 * MIB, pool.idleBytes() + " bytes are held");
    check(pool.countIdle() == 10, "consumers were closed for what they hold");
    check(taken.get(0).idleBytes == 0 && taken.get(9).idleBytes > 0, "the oldest go first");
    check(made.get(0).assigned.isEmpty(), "Kafka's buffer is kept");
    PooledConsumer again = pool.take("s", 0, params(Map.of()), ranges(1, 5, 10), false);
    readOnce(again, 1, 5, 10);
    check(taken.contains(again), "a cold one");
    again = pool.take("s", 0, params(Map.of()), ranges(1, 5, 10), false);
    readOnce(again, 1, 5, 10);
    PooledConsumer released = taken.get(0);
    released.beginUse();
    readOnce(released, 1, 5, 10); // its kept records are gone: from the log, each once
  }

  void endedStreamsLeaveNoConsumers() throws Exception {
    ConsumerPool pool = pool();
    PooledConsumer idle = pool.take("old", 0, params(Map.of()), ranges(1, 0, 5), false);
    PooledConsumer busy = pool.take("old", 1, params(Map.of()), ranges(1, 0, 5), false);
    PooledConsumer other = pool.take("new", 0, params(Map.of()), ranges(1, 0, 5), false);
    pool.giveBack(idle);
    pool.giveBack(other);
    pool.closeEnded(List.of("older", "old"));
    pool.giveBack(busy);
    check(pool.countIdle() == 1, pool.countIdle() + " idle");
    long until = System.nanoTime() + 10_000_000_000L;
    while (!(made.get(0).closed && made.get(1).closed)) {
      check(System.nanoTime() < until, "not closed: " + made.get(0).closed + made.get(1).closed);
      Thread.onSpinWait();
    }
    check(!made.get(2).closed, "the other stream's is closed");
  }

  void offsetsThatGoBackRenameTheStream() {
    io.assignorbridge.planning.IdentityChecks.run();
  }

  void aClientThatIsMadeWhileTheConsumerIsClosedIsClosedToo() {
    List<PooledConsumer> pooled = new ArrayList<>();
    Function<Map<String, Object>, Consumer<byte[], byte[]>> maker =
        params -> {
          Consumer<byte[], byte[]> client = maker().apply(params);
          if (made.size() == 2) {
            pooled.get(0).close(); // as the pool's thread does when the task has ended
          }
          return client;
        };
    pooled.add(new PooledConsumer("s", 0, params(Map.of()), BUFFER, 2, maker));
    readOnce(pooled.get(0), 2, 0, 10);
    boolean ended = false;
    try {
      readOnce(pooled.get(0), 1_000, 10, 20);
    } catch (IllegalStateException e) {
      ended = true;
    }
    check(made.size() == 2 && made.get(1).closed, "a client stays open for ever");
    check(ended, "it is read on");
  }

  void whatIsKeptOutlivesAnotherClient() {
    recordsPerBatch = 8;
    recordBytes = 64 << 10;
    PooledConsumer consumer = consumer(500, Map.of());
    readOnce(consumer, 8, 0, 5); // keeps 5 to 7 of each, for the next batch
    int before = made.size();
    readOnce(consumer, 500, 5, 9);
    check(made.size() > before, "the client is the same");
    readOnce(consumer, 8, 9, 20);
  }

  void bytesAreCountedOnceByBrokerWhicheverClientReceivedThem() {
    recordsPerBatch = 8;
    recordBytes = 64 << 10;
    PooledConsumer consumer = consumer(500, Map.of());
    readOnce(consumer, 1, 0, 8); // of broker 0 alone
    check(consumer.takeReceivedBytes().keySet().equals(Set.of(0)), "bytes of a broker that sent none");
    check(consumer.takeReceivedBytes().isEmpty(), "counted twice");
    readOnce(consumer, 8, 8, 16);
    int scans = last().metricScans;
    check(consumer.takeReceivedBytes().keySet().equals(Set.of(0, 1)), "the new broker");
    check(last().metricScans == scans + 1, "a new broker is looked for");
    readOnce(consumer, 8, 16, 24);
    Map<Integer, Long> taken = consumer.takeReceivedBytes();
    check(taken.equals(Map.of(0, 4 * 8L * recordBytes, 1, 4 * 8L * recordBytes)), "" + taken);
    check(last().metricScans == scans + 1, "brokers are looked for in vain");
    double before = last().incoming;
    int clients = made.size();
    readOnce(consumer, 500, 24, 32);
    check(made.size() == clients + 1, "the client is the same");
    double since = made.get(clients - 1).incoming - before + last().incoming;
    long sum = consumer.takeReceivedBytes().values().stream().mapToLong(Long::longValue).sum();
    check(sum == since, sum + " of " + since);
  }

  void bytesAcrossZonesAreToldAsFarAsRacksAreKnown() {
    io.assignorbridge.cluster.CrossZoneChecks.run();
  }

  void aReaderThatIsClosedTakesNoConsumer() throws Exception {
    SharedReader reader = new SharedReader(task(nowhere(new HashMap<>())), null, true, List.of(), null, report -> {}, bytes -> {});
    long open = ReaderCounters.CREATED_CLIENTS.sum() - ReaderCounters.CLOSED_CLIENTS.sum();
    reader.close();
    String outcome = "none";
    try {
      reader.next();
    } catch (IllegalStateException e) {
      outcome = e.getMessage();
    }
    check(outcome.equals("the reader is closed"), outcome);
    long until = System.nanoTime() + 10_000_000_000L;
    while (ReaderCounters.CREATED_CLIENTS.sum() - ReaderCounters.CLOSED_CLIENTS.sum() > open) {
      check(System.nanoTime() < until, "a consumer stays open");
      Thread.onSpinWait();
    }
  }

  void aSharedReaderThatDoesNotFitLeavesItsRangesToSpark() throws Exception {
    Map<String, Object> unfit =
        nowhere(
            new HashMap<>() {
              @Override
              public Object get(Object key) {
                throw new NoSuchMethodError("moved");
              }
            });
    SharedReader reader = new SharedReader(task(unfit), SPARKS, true, List.of(), null, report -> {}, bytes -> {});
    long before = ReaderCounters.HANDED_OVER_RANGES.sum();
    while (reader.next()) {}
    check(ReaderCounters.HANDED_OVER_RANGES.sum() - before == 2, "not handed over");
    check(reader.currentMetricsValues()[0].value() == 4, "metrics of Spark's readers are not summed");
    reader.close();
    io.assignorbridge.planning.IdentityChecks.readersOfAnotherSpark(task(Map.of()).ranges()[0], SPARKS);
  }

  void readersOfSparkReadAllRangesFromTheStart() throws Exception {
    List<ReadReport> reports = new ArrayList<>();
    SharedReader reader = new SharedReader(task(Map.of()), SPARKS, false, List.of(), null, reports::add, bytes -> {});
    long before = ReaderCounters.HANDED_OVER_RANGES.sum();
    for (int range = 0; range < 2; range++) {
      for (int row = 0; row < 3; row++) {
        check(reader.next() && reader.get().getInt(0) == row, "row " + row);
        check(reports.size() == range, "a range is reported at its end");
      }
    }
    check(!reader.next() && !reader.next(), "more rows");
    check(ReaderCounters.HANDED_OVER_RANGES.sum() == before, "none was handed over");
    for (int range = 0; range < 2; range++) {
      ReadReport report = reports.get(range);
      check(report.partition() == range && report.records() == 3, report.toString());
      check(report.bytes() == 0 && report.nanos() > 0 && report.offsets() == 5, report.toString());
      check(report.oldestMillis() == 1 && report.newestMillis() == 1, report.toString());
    }
    reader.close();
  }

  void aRecordWithoutATimestampHasNoAge() {
    RangeCursor range = range(0, 0, 5);
    range.addTimestamp(-1);
    check(range.oldestMillis > range.newestMillis, "an age of nothing");
    range.addTimestamp(7);
    range.addTimestamp(-1);
    range.addTimestamp(5);
    check(range.oldestMillis == 5 && range.newestMillis == 7, range.oldestMillis + " to " + range.newestMillis);
  }

  void onlyTheWaitOfAColdReadIsCounted() {
    PooledConsumer consumer = consumer(1, Map.of());
    long[] starts = {0, 20, 1_000_000}; // the second range follows the first one, the third does not
    for (int i = 0; i < starts.length; i++) {
      ReadTimes times = new ReadTimes();
      List<RangeCursor> ranges = List.of(range(0, starts[i], starts[i] + 20));
      List<Chunk> chunks = new ArrayList<>();
      consumer.beginUse();
      consumer.begin(ranges, 0, chunks);
      times.splitByRecords(chunks);
      RangeCursor range = ranges.get(0);
      check(range.waitsCold == (i != 1), "range " + i + ": " + range.waitsCold);
      while (range.state == State.READING || range.state == State.PENDING) {
        chunks.clear();
        consumer.poll(NOW, 0, chunks);
        times.splitByRecords(chunks);
        consumer.fitBuffers(0);
      }
      check(range.nanos > 0 && range.coldNanos <= range.nanos, range.coldNanos + " of " + range.nanos);
      check(range.coldNanos > 0 == (i != 1), "range " + i + ": " + range.coldNanos);
    }
  }

  void countersAreJsonInAnyLocale() {
    Locale.setDefault(Locale.forLanguageTag("ar-EG-u-nu-arab"));
    check(String.format("%d", 1).charAt(0) > 127, "this locale writes other digits");
    String json = ReaderCounters.json();
    check(json.chars().allMatch(one -> one < 128), json);
  }

  void settingsMayHaveSpacesAround() {
    consumer(2, Map.of("max.partition.fetch.bytes", "65536 "));
    check(last().partitionBytes == 65_536, "" + last().partitionBytes);
  }

  /** Reads partitions from 0 on with one batch of Spark's, checking that each offset comes once. */
  private void readOnce(PooledConsumer consumer, int partitions, long start, long until) {
    readAll(consumer, ranges(partitions, start, until));
  }

  private void readAll(PooledConsumer consumer, List<RangeCursor> ranges) {
    consumer.beginUse();
    OrderedRanges ordered = new OrderedRanges();
    ranges.forEach(ordered::add);
    List<Chunk> chunks = new ArrayList<>();
    consumer.begin(ordered.begin(), 0, chunks);
    ordered.addRecords(chunks);
    int polls = 0;
    for (RangeCursor range : ranges) {
      int i = range.partition.partition();
      long next = range.start;
      RangeCursor first = ordered.first();
      while (first.state == State.READING || !first.chunks.isEmpty()) {
        if (first.chunks.isEmpty()) {
          chunks.clear();
          consumer.poll(NOW, ordered.heldBytes(), chunks);
          ordered.addRecords(chunks);
          consumer.fitBuffers(ordered.heldBytes());
          check(polls++ < 20_000, "no end");
          continue;
        }
        for (var record : first.chunks.poll().records()) {
          check(record.partition() == i && record.offset() == next, i + " at " + record.offset());
          next++;
        }
      }
      check(next == range.end, i + " ends at " + next);
      ordered.removeFirst();
    }
    check(!consumer.isReading() && ordered.heldBytes() == 0, "something is left");
  }

  private FakeKafka last() {
    return made.get(made.size() - 1);
  }

  private ConsumerPool pool() {
    return new ConsumerPool(new SparkConf(false), BUFFER, 8 * MIB, maker());
  }

  private PooledConsumer consumer(int partitions, Map<String, Object> settings) {
    return new PooledConsumer("s", 0, params(settings), BUFFER, partitions, maker());
  }

  private Function<Map<String, Object>, Consumer<byte[], byte[]>> maker() {
    return params -> {
      made.add(new FakeKafka(params, recordsPerBatch, recordBytes, headerBytes));
      last().remote = remote;
      last().disorder = disorder;
      return last().consumer();
    };
  }

  private static Map<String, Object> params(Map<String, Object> settings) {
    Map<String, Object> all = new HashMap<>(settings);
    all.put("bootstrap.servers", "fake:1");
    return all;
  }

  private static List<RangeCursor> ranges(int partitions, long start, long until) {
    List<RangeCursor> ranges = new ArrayList<>();
    for (int i = 0; i < partitions; i++) {
      ranges.add(range(i, start, until));
    }
    return ranges;
  }

  private static RangeCursor range(int number, long start, long until) {
    KafkaOffsetRange offsets =
        new KafkaOffsetRange(partition(number), start, until, Option.empty());
    return new RangeCursor(number, new KafkaBatchInputPartition(offsets, Map.of(), 1_000, true, false));
  }

  /** Two ranges; their parameters are these. */
  private static AssignedInputPartition task(Map<String, Object> params) {
    KafkaBatchInputPartition[] ranges = new KafkaBatchInputPartition[2];
    for (int i = 0; i < ranges.length; i++) {
      KafkaOffsetRange offsets = new KafkaOffsetRange(partition(i), 0, 5, Option.empty());
      ranges[i] = new KafkaBatchInputPartition(offsets, params, 1_000, true, false);
    }
    return new AssignedInputPartition("s", 1, 0, "0", 0, ranges, new String[0]);
  }

  /** With settings of a consumer whose broker is not there. */
  private static Map<String, Object> nowhere(Map<String, Object> params) {
    params.put("bootstrap.servers", "127.0.0.1:1");
    params.put("group.id", "g");
    params.put("key.deserializer", ByteArrayDeserializer.class.getName());
    params.put("value.deserializer", ByteArrayDeserializer.class.getName());
    return params;
  }

  private static TopicPartition partition(int number) {
    return new TopicPartition("t", number);
  }
}
