package io.assignorbridge.planning;

import io.assignorbridge.model.AssignedInputPartition;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.ReadReport;
import io.assignorbridge.model.ReportAccumulator;
import java.io.IOException;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;

/** What names a stream's cached consumers, for the checks of the reader. */
public final class IdentityChecks {
  private IdentityChecks() {}

  /** A name stays while offsets go forward, ends when they go back, and when the stream stops. */
  public static void run() {
    StreamIdentity stream = new StreamIdentity();
    Set<TopicPartition> live = live(3);
    String first = note(stream, List.of(range(0, 10, 20), range(0, 20, 30), range(1, 5, 6)), live);
    check(first.equals(note(stream, List.of(range(0, 30, 40)), live)), "the next batch is another's");
    check(first.equals(note(stream, List.of(range(1, 6, 8), range(2, 0, 1)), live)), "a new partition");
    check(!StreamIdentity.listRecentlyEnded().contains(first), "ended too early");
    String second = note(stream, List.of(range(0, 0, 5), range(1, 8, 9)), live);
    check(!second.equals(first), "the name of a topic that was made anew");
    check(StreamIdentity.listRecentlyEnded().contains(first), "the old name goes on");
    check(second.equals(note(stream, List.of(range(0, 5, 50)), live)), "a name a batch");
    String third = note(stream, List.of(range(0, 50, 60)), live(1));
    check(!third.equals(second), "the name of a topic that is gone");
    check(third.equals(note(stream, List.of(range(1, 0, 1)), live)), "a topic that is back is new");
    stream.end();
    check(StreamIdentity.listRecentlyEnded().contains(third), "not ended");
    StreamIdentity sparse = new StreamIdentity();
    String read = note(sparse, List.of(range(2, 0, 9)), live(5)); // the others never had a record
    check(!read.equals(note(sparse, List.of(range(0, 0, 1)), live(2))), "gone among idle partitions");
    for (int i = 0; i < 300; i++) {
      new StreamIdentity().end();
    }
    check(StreamIdentity.listRecentlyEnded().size() <= 100, StreamIdentity.listRecentlyEnded().size() + " are listed");
  }

  private static String note(
      StreamIdentity stream, List<OffsetRange> batch, Set<TopicPartition> live) {
    stream.startBatch(batch, live);
    return stream.name();
  }

  private static Set<TopicPartition> live(int partitions) {
    return IntStream.range(0, partitions)
        .mapToObj(partition -> new TopicPartition("t", partition))
        .collect(Collectors.toSet());
  }

  /** A shared reader that does not even know its time-out is replaced by Spark's readers. */
  public static void readersOfAnotherSpark(
      KafkaBatchInputPartition range, PartitionReaderFactory sparks) throws IOException {
    KafkaBatchInputPartition unfit =
        new KafkaBatchInputPartition(
            range.offsetRange(), range.executorKafkaParams(), 1_000, true, false) {
          @Override
          public long pollTimeoutMs() {
            throw new NoSuchMethodError("moved");
          }
        };
    AssignedInputPartition task =
        new AssignedInputPartition(
            "s", 1, 0, "0", 0, new KafkaBatchInputPartition[] {unfit}, new String[0]);
    ReportAccumulator<ReadReport> reports = new ReportAccumulator<>();
    PartitionReader<InternalRow> reader =
        new AssignedReaderFactory(sparks, true, reports, null).createReader(task);
    check(reader.next() && reader.next() && reader.next() && !reader.next(), "not Spark's rows");
    check(reports.value().get(0).records() == 3, "not reported");
    reader.close();
  }

  private static OffsetRange range(int partition, long start, long end) {
    return new OffsetRange("t", partition, start, end);
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
