package io.assignorbridge.reader;

import static java.util.stream.Collectors.toSet;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Kafka's consumer with a bound on what its buffer holds. Kafka fetches ahead beyond a range's end;
 * that stays in the buffer while the partition is paused, and with it the whole answer of the broker
 * that it came in. How much that is Kafka does not tell, but it is no more than what came over the
 * network since the oldest such partition was last empty.
 */
final class BoundedConsumer {
  private static final int LEAST_TO_FIT_BATCHES = 8; // fewer are read to their ends as they are

  private final FetchSize size;
  private final long bufferBytes;
  private final Function<Map<String, Object>, Consumer<byte[], byte[]>> maker;
  private final Set<PartitionPosition> assigned = new LinkedHashSet<>();
  private final List<PartitionPosition> fetched = new ArrayList<>();
  private final ArrayDeque<PartitionPosition> waiting = new ArrayDeque<>(); // to be fetched next

  private volatile Consumer<byte[], byte[]> consumer;
  private volatile boolean closed; // by the pool's thread, maybe while a thread of the task polls
  private int maxPollRecords;
  private long boundedAt;

  // Totals of the client: bytes from the brokers, bytes of polled records, answers of brokers.
  private Metric incoming;
  private Metric consumed;
  private Metric answers;
  private long countedIncoming;
  private long countedConsumed;
  private final ReceivedBytes received = new ReceivedBytes();

  BoundedConsumer(
      Map<String, Object> params,
      long bufferBytes,
      int partitions,
      Function<Map<String, Object>, Consumer<byte[], byte[]>> maker) {
    this.size = new FetchSize(params, bufferBytes, partitions);
    this.bufferBytes = bufferBytes;
    this.maker = maker;
    open();
  }

  /** Begins to fetch partitions, of so many ranges in all, as the buffer has room for them. */
  void begin(Collection<PartitionPosition> positions, int ranges) {
    if (size.fitPartitions(ranges)) {
      replace();
    }
    waiting.addAll(positions);
    prepareWaiting();
  }

  /** What is fetched now; empty when all is read. */
  List<PartitionPosition> fetched() {
    return fetched;
  }

  ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
    ReaderCounters.POLLS.increment();
    long bytesBefore = total(incoming);
    long answersBefore = total(answers);
    ConsumerRecords<byte[], byte[]> polled = consumer.poll(timeout);
    long bytes = total(incoming) - bytesBefore;
    size.note(total(answers) - answersBefore, bytes, polled.partitions());
    countTraffic();
    if (polled.count() < maxPollRecords) { // nothing is left in the buffer of what is read
      fetched.forEach(one -> one.mark = bytesBefore);
    }
    return polled;
  }

  /** Pauses what is not read any more, if any; what Kafka holds of it stays, within the bound. */
  boolean park() {
    Predicate<PartitionPosition> isDone = one -> one.reading == null;
    Set<PartitionPosition> done =
        Stream.concat(fetched.stream(), waiting.stream()).filter(isDone).collect(toSet());
    if (done.isEmpty()) {
      return false;
    }
    consumer.pause(partitionsOf(done));
    fetched.removeAll(done);
    waiting.removeAll(done);
    long now = total(incoming);
    if (now - boundedAt >= bufferBytes / 8) {
      boundedAt = now;
      if (parkedBytes() > bufferBytes) {
        drop(parked().filter(one -> one.mark < now - bufferBytes / 2).toList());
      }
    }
    fetchNext();
    return true;
  }

  /** Asks for more of a partition when answers turned out to be of one each. */
  void fitBatches() {
    if (fetched.size() + waiting.size() >= LEAST_TO_FIT_BATCHES && size.fitBatches(fetched)) {
      replace();
      fetched.forEach(waiting::addFirst);
      fetched.clear();
      prepareWaiting();
    }
  }

  /** Gives partitions up with all that Kafka holds of them; their positions are still known. */
  void drop(Collection<PartitionPosition> positions) {
    boolean changed = false;
    for (PartitionPosition one : positions) {
      changed |= assigned.remove(one);
      one.positioned = false;
    }
    if (changed) {
      consumer.assign(partitionsOf(assigned));
    }
  }

  /** At most so many bytes lie in Kafka's buffer for partitions that are paused. */
  long parkedBytes() {
    long now = total(incoming);
    return parked().mapToLong(one -> now - one.mark).max().orElse(0);
  }

  /** Ends a failing check of a position's leader epoch, which would be raised again and again. */
  void seekAgain(PartitionPosition position) {
    if (position.positioned) {
      consumer.seek(position.partition, position.position);
    }
  }

  /** Where Kafka's consumer stands, beyond markers and compacted offsets. */
  long offsetOf(PartitionPosition position) {
    try {
      return consumer.position(position.partition, Duration.ZERO);
    } catch (TimeoutException e) { // its leader has changed and is being asked: nothing new yet
      return position.position;
    }
  }

  /** Bytes that came over the network since the last call, by id of broker. */
  Map<Integer, Long> takeReceived() {
    received.count(consumer, total(incoming));
    return received.take();
  }

  void close() {
    closed = true;
    closeClient();
  }

  private Stream<PartitionPosition> parked() {
    return assigned.stream().filter(one -> one.reading == null);
  }

  /** Has what waits assigned and positioned, paused until there is room in the buffer. */
  private void prepareWaiting() {
    List<PartitionPosition> added = waiting.stream().filter(assigned::add).toList();
    if (!added.isEmpty()) {
      long now = total(incoming);
      added.forEach(one -> one.mark = now);
      consumer.assign(partitionsOf(assigned));
    }
    for (PartitionPosition one : waiting) {
      if (!one.positioned) {
        consumer.seek(one.partition, one.position);
        one.positioned = true;
        ReaderCounters.SEEKS.increment();
      }
    }
    consumer.pause(partitionsOf(waiting));
    fetchNext();
  }

  private void fetchNext() {
    List<PartitionPosition> next = new ArrayList<>();
    while (!waiting.isEmpty() && fetched.size() + next.size() < size.width()) {
      next.add(waiting.poll());
    }
    fetched.addAll(next);
    consumer.resume(partitionsOf(next));
  }

  private void closeClient() {
    countTraffic();
    consumer.close(Duration.ZERO);
    ReaderCounters.CLOSED.increment();
  }

  private void replace() {
    assigned.forEach(one -> one.positioned = false);
    assigned.clear();
    received.count(consumer, total(incoming));
    received.forgetClient();
    closeClient();
    open();
    ReaderCounters.REPLACED.increment();
    if (closed) { // meanwhile: who closed it has seen the old client only
      closeClient();
      throw new IllegalStateException("the consumer is closed");
    }
  }

  private void open() {
    Map<String, Object> params = size.params();
    maxPollRecords = FetchSize.number(params, ConsumerConfig.MAX_POLL_RECORDS_CONFIG);
    consumer = maker.apply(params);
    incoming = metric("incoming-byte-total", "consumer-metrics");
    consumed = metric("bytes-consumed-total", "consumer-fetch-manager-metrics");
    answers = metric("fetch-total", "consumer-fetch-manager-metrics");
    countedIncoming = 0;
    countedConsumed = 0;
    boundedAt = 0;
    size.restart();
    ReaderCounters.CREATED.increment();
  }

  private void countTraffic() {
    long network = total(incoming);
    long records = total(consumed);
    ReaderCounters.NETWORK_BYTES.add(network - countedIncoming);
    ReaderCounters.CONSUMED_BYTES.add(records - countedConsumed);
    countedIncoming = network;
    countedConsumed = records;
  }

  /** The client's metric over all topics; null if it has none of that name. */
  private Metric metric(String name, String group) {
    return consumer.metrics().values().stream()
        .filter(one -> one.metricName().name().equals(name))
        .filter(one -> one.metricName().group().equals(group))
        .filter(one -> !one.metricName().tags().containsKey("topic"))
        .findFirst()
        .orElse(null);
  }

  static long total(Metric metric) {
    return metric == null ? 0 : (long) (double) metric.metricValue();
  }

  private static Set<TopicPartition> partitionsOf(Collection<PartitionPosition> positions) {
    return positions.stream().map(one -> one.partition).collect(toSet());
  }
}
