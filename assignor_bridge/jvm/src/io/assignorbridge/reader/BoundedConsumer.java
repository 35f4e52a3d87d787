package io.assignorbridge.reader;

import static java.util.stream.Collectors.toSet;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Kafka's consumer with a bound on what its buffer holds. Of the partitions with an unfinished range
 * it fetches a prefix, in the order of the plan; all others are paused. Kafka fetches beyond a
 * range's end, and a paused partition keeps the whole response in the buffer in which its records
 * came. Kafka does not report how much that is, but it is at most what crossed the network since the
 * oldest such partition was last empty.
 */
final class BoundedConsumer {
  private static final int LOOKS_PER_BUFFER = 16;

  private final FetchSize size;
  private final FetchWindow window;
  private final long bufferBytes;
  private final Function<Map<String, Object>, Consumer<byte[], byte[]>> maker;
  private final Set<PartitionPosition> assigned = new LinkedHashSet<>();
  private final List<PartitionPosition> unread = new ArrayList<>(); // in the order of the plan
  private final Set<PartitionPosition> fetched = new LinkedHashSet<>(); // not paused

  private volatile Consumer<byte[], byte[]> consumer;
  private volatile boolean closed; // by the pool's thread, maybe while a thread of the task polls
  private int maxPollRecords;
  private long boundedAt;
  private long windowAt; // bytes of traffic, and held bytes, when the window was computed
  private long windowHeldBytes;
  private long polledHeapBytes; // since the client was opened, by samples
  private long[] begunBytes = {}; // expected sizes of the ranges that were begun last

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
    this.window = new FetchWindow(bufferBytes);
    this.bufferBytes = bufferBytes;
    this.maker = maker;
    open();
  }

  /** Begins to fetch the unfinished ranges of partitions. */
  void begin(Collection<PartitionPosition> positions, long heldBytes) {
    unread.addAll(positions);
    unread.sort(Comparator.comparingInt(one -> one.reading.index));
    if (size.fitPartitions(window.size(unread, heldBytes, Integer.MAX_VALUE))) {
      replace();
    }
    begunBytes = unread.stream().mapToLong(window::expectedBytes).toArray();
    prepare(unread);
    fetchWindow(heldBytes);
  }

  /** Partitions with an unfinished range, in the order of the plan; do not change it. */
  List<PartitionPosition> unread() {
    return unread;
  }

  /** The partitions of them that are not paused; do not change it. */
  Set<PartitionPosition> fetched() {
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
    if (polled.count() < maxPollRecords) { // the buffer has no further record of what is fetched
      fetched.forEach(one -> one.mark = bytesBefore);
    }
    return polled;
  }

  /** Learns the size of records from a partition that was just polled. */
  void learn(PartitionPosition polled, long heapBytes) {
    window.learn(polled);
    polledHeapBytes += heapBytes;
  }

  /** Fetches other partitions if much more, or less, is held than when they were chosen. */
  void fitWindow(long heldBytes) {
    if (Math.abs(heldBytes - windowHeldBytes) >= bufferBytes / LOOKS_PER_BUFFER) {
      fetchWindow(heldBytes);
    }
  }

  /**
   * Pauses partitions whose range is finished, and fetches others in their place. What Kafka holds
   * of the paused ones stays, within the bound.
   *
   * @param heldBytes heap of records that were received before their turn
   * @return whether a range was finished
   */
  boolean park(long heldBytes) {
    boolean finished = unread.removeIf(one -> one.reading == null);
    long now = total(incoming);
    if (finished || now - windowAt >= bufferBytes / LOOKS_PER_BUFFER) {
      fetchWindow(heldBytes);
    }
    if (now - boundedAt >= bufferBytes / 8) {
      boundedAt = now;
      if (parkedBytes() > bufferBytes) {
        drop(parked().filter(one -> one.mark < now - bufferBytes / 2).toList());
      }
    }
    return finished;
  }

  /** Fetches more of a partition at a time if the window, or a producer's batches, ask for it. */
  void fitFetches(long heldBytes) {
    if (unread.isEmpty()) {
      return;
    }
    PartitionPosition first = unread.get(0);
    boolean grows = false;
    if (first.bytesPerOffset > 0) {
      // Compressed records take less of the network than of the heap.
      double traffic = Math.min(1, (double) total(incoming) / Math.max(1, polledHeapBytes));
      long expectedBytes = (long) (traffic * window.expectedBytes(first));
      grows = size.fitWindow(fetched.size(), expectedBytes, begunBytes);
    }
    if (grows || size.fitBatches(fetched)) {
      replace();
      prepare(unread);
      fetchWindow(heldBytes);
    }
  }

  /** Gives partitions up with all that Kafka holds of them; their positions are still known. */
  void drop(Collection<PartitionPosition> positions) {
    boolean changed = false;
    for (PartitionPosition one : positions) {
      changed |= assigned.remove(one);
      fetched.remove(one);
      one.positioned = false;
    }
    if (changed) {
      consumer.assign(partitionsOf(assigned));
    }
  }

  /** Upper bound of the bytes in Kafka's buffer for partitions that are paused. */
  long parkedBytes() {
    long now = total(incoming);
    return parked().mapToLong(one -> Math.max(0, now - one.mark)).max().orElse(0);
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
    return assigned.stream().filter(one -> !fetched.contains(one));
  }

  private void fetchWindow(long heldBytes) {
    windowAt = total(incoming);
    windowHeldBytes = heldBytes;
    fetch(List.copyOf(unread.subList(0, window.size(unread, heldBytes, size.width()))));
  }

  /** Assigns and positions partitions that Kafka's consumer does not have; new ones are paused. */
  private void prepare(Collection<PartitionPosition> positions) {
    List<PartitionPosition> added = positions.stream().filter(assigned::add).toList();
    if (!added.isEmpty()) {
      added.forEach(one -> one.mark = PartitionPosition.NEVER_FETCHED);
      consumer.assign(partitionsOf(assigned));
      consumer.pause(partitionsOf(added));
    }
    for (PartitionPosition one : positions) {
      if (!one.positioned) {
        consumer.seek(one.partition, one.position);
        one.positioned = true;
        ReaderCounters.SEEKS.increment();
      }
    }
  }

  /** Fetches these partitions and no others. */
  private void fetch(Collection<PartitionPosition> wanted) {
    prepare(wanted);
    Set<PartitionPosition> paused = new LinkedHashSet<>(fetched);
    wanted.forEach(paused::remove);
    consumer.pause(partitionsOf(paused));
    fetched.removeAll(paused);
    List<PartitionPosition> resumed = wanted.stream().filter(fetched::add).toList();
    resumed.forEach(one -> one.mark = Math.min(one.mark, total(incoming)));
    consumer.resume(partitionsOf(resumed));
  }

  private void closeClient() {
    countTraffic();
    consumer.close(Duration.ZERO);
    ReaderCounters.CLOSED.increment();
  }

  private void replace() {
    assigned.forEach(one -> one.positioned = false);
    assigned.clear();
    fetched.clear();
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
    windowAt = 0;
    polledHeapBytes = 0;
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
