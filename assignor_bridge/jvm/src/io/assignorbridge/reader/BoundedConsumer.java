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
 * A Kafka consumer with bounded buffers. It fetches the first partitions in plan order that have an
 * unfinished range, and pauses all others. Kafka fetches beyond the end of a range, and a paused
 * partition keeps each response that contains its records in memory. Kafka does not report their
 * size. An upper bound is the traffic since the first paused partition began to buffer.
 */
final class BoundedConsumer {
  private static final int CHECKS_PER_BUFFER = 16;

  private final FetchSize fetchSize;
  private final FetchWindow window;
  private final long bufferBytes;
  private final Function<Map<String, Object>, Consumer<byte[], byte[]>> clientFactory;
  private final Set<PartitionPosition> assignedPartitions = new LinkedHashSet<>();
  private final List<PartitionPosition> unreadPartitions = new ArrayList<>(); // in plan order
  private final Set<PartitionPosition> fetchedPartitions = new LinkedHashSet<>(); // not paused

  private volatile Consumer<byte[], byte[]> consumer;
  private volatile boolean closed; // set by the pool's thread, maybe while the task's thread polls
  private int maxPollRecords;
  private long incomingBytesAtCheck; // bytes from brokers when the bound was last checked
  private long incomingBytesAtWindow; // bytes from brokers when the window was last computed
  private long heldBytesAtWindow; // held bytes when the window was last computed
  private long polledHeapBytes; // since the client was opened, estimated from samples
  private long[] expectedRangeBytes = {}; // of the unread ranges at the last `begin`
  private Metric incomingMetric; // total bytes from brokers
  private Metric consumedMetric; // total bytes of polled records
  private Metric responsesMetric; // total number of responses
  private long countedIncomingBytes;
  private long countedConsumedBytes;
  private final ReceivedBytes receivedBytes = new ReceivedBytes();

  BoundedConsumer(
      Map<String, Object> params,
      long bufferBytes,
      int partitionCount,
      Function<Map<String, Object>, Consumer<byte[], byte[]>> clientFactory) {
    this.fetchSize = new FetchSize(params, bufferBytes, partitionCount);
    this.window = new FetchWindow(bufferBytes);
    this.bufferBytes = bufferBytes;
    this.clientFactory = clientFactory;
    openClient();
  }

  /** Adds partitions with an unfinished range, and fetches those that fit into the window. */
  void begin(Collection<PartitionPosition> positions, long heldBytes) {
    unreadPartitions.addAll(positions);
    unreadPartitions.sort(Comparator.comparingInt(p -> p.currentRange.index));
    if (fetchSize.fitPartitions(window.countPartitions(unreadPartitions, heldBytes, Integer.MAX_VALUE))) {
      replaceClient();
    }
    expectedRangeBytes = unreadPartitions.stream().mapToLong(window::estimateBytes).toArray();
    prepare(unreadPartitions);
    fetchWindow(heldBytes);
  }

  /** Returns the partitions with an unfinished range, in plan order; do not modify the list. */
  List<PartitionPosition> unreadPartitions() {
    return unreadPartitions;
  }

  /** Returns the unread partitions that are not paused; do not modify the set. */
  Set<PartitionPosition> fetchedPartitions() {
    return fetchedPartitions;
  }

  ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
    ReaderCounters.POLLS.increment();
    long bytesBefore = total(incomingMetric);
    long responsesBefore = total(responsesMetric);
    ConsumerRecords<byte[], byte[]> polledRecords = consumer.poll(timeout);
    long bytes = total(incomingMetric) - bytesBefore;
    fetchSize.addPoll(total(responsesMetric) - responsesBefore, bytes, polledRecords.partitions());
    countTraffic();
    if (polledRecords.count() < maxPollRecords) { // the buffer has no more records of unpaused partitions
      fetchedPartitions.forEach(p -> p.bufferedSinceBytes = bytesBefore);
    }
    return polledRecords;
  }

  /** Adds the heap bytes of a polled partition, and updates the bytes expected of others. */
  void addPolledBytes(PartitionPosition polledPosition, long heapBytes) {
    window.updateTypicalBytes(polledPosition);
    polledHeapBytes += heapBytes;
  }

  /** Recomputes the window if the held bytes have changed by a sixteenth of the buffer. */
  void fitWindow(long heldBytes) {
    if (Math.abs(heldBytes - heldBytesAtWindow) >= bufferBytes / CHECKS_PER_BUFFER) {
      fetchWindow(heldBytes);
    }
  }

  /**
   * Pauses partitions whose range is finished and fetches others instead. Kafka's consumer keeps
   * the buffered records of paused partitions, within the bound.
   *
   * @param heldBytes heap bytes of records that were received before their turn
   * @return whether a range was finished
   */
  boolean pauseFinished(long heldBytes) {
    boolean hasFinished = unreadPartitions.removeIf(p -> p.currentRange == null);
    long incomingBytes = total(incomingMetric);
    if (hasFinished || incomingBytes - incomingBytesAtWindow >= bufferBytes / CHECKS_PER_BUFFER) {
      fetchWindow(heldBytes);
    }
    if (incomingBytes - incomingBytesAtCheck >= bufferBytes / 8) {
      incomingBytesAtCheck = incomingBytes;
      if (pausedBytes() > bufferBytes) {
        drop(streamPaused().filter(p -> p.bufferedSinceBytes < incomingBytes - bufferBytes / 2).toList());
      }
    }
    return hasFinished;
  }

  /** Increases the fetch size if the window or the producers' batches require it. */
  void fitFetchSize(long heldBytes) {
    if (unreadPartitions.isEmpty()) {
      return;
    }
    PartitionPosition firstPosition = unreadPartitions.get(0);
    boolean grows = false;
    if (firstPosition.bytesPerOffset > 0) {
      // Compressed records take fewer bytes on the network than on the heap.
      double networkBytesPerHeapByte =
          Math.min(1, (double) total(incomingMetric) / Math.max(1, polledHeapBytes));
      long expectedBytes = (long) (networkBytesPerHeapByte * window.estimateBytes(firstPosition));
      grows = fetchSize.fitWindow(fetchedPartitions.size(), expectedBytes, expectedRangeBytes);
    }
    if (grows || fetchSize.fitBatches(fetchedPartitions)) {
      replaceClient();
      prepare(unreadPartitions);
      fetchWindow(heldBytes);
    }
  }

  /** Unassigns partitions, which drops Kafka's buffered records but not the positions. */
  void drop(Collection<PartitionPosition> positions) {
    boolean changed = false;
    for (PartitionPosition p : positions) {
      changed |= assignedPartitions.remove(p);
      fetchedPartitions.remove(p);
      p.positioned = false;
    }
    if (changed) {
      consumer.assign(partitionsOf(assignedPartitions));
    }
  }

  /** Returns an upper bound on the bytes that Kafka's consumer buffers for paused partitions. */
  long pausedBytes() {
    long incomingBytes = total(incomingMetric);
    return streamPaused().mapToLong(p -> Math.max(0, incomingBytes - p.bufferedSinceBytes)).max().orElse(0);
  }

  /** Seeks to the same position, so that a failed leader-epoch check is not raised repeatedly. */
  void seekAgain(PartitionPosition position) {
    if (position.positioned) {
      consumer.seek(position.partition, position.position);
    }
  }

  /** Returns the offset after markers and compacted offsets; the old one while a leader changes. */
  long offsetOf(PartitionPosition position) {
    try {
      return consumer.position(position.partition, Duration.ZERO);
    } catch (TimeoutException e) { // the leader is changing, so there is no progress yet
      return position.position;
    }
  }

  /** Returns the bytes received over the network since the last call, by broker id. */
  Map<Integer, Long> takeReceivedBytes() {
    receivedBytes.update(consumer, total(incomingMetric));
    return receivedBytes.take();
  }

  void close() {
    closed = true;
    closeClient();
  }

  private Stream<PartitionPosition> streamPaused() {
    return assignedPartitions.stream().filter(p -> !fetchedPartitions.contains(p));
  }

  private void fetchWindow(long heldBytes) {
    incomingBytesAtWindow = total(incomingMetric);
    heldBytesAtWindow = heldBytes;
    int count = window.countPartitions(unreadPartitions, heldBytes, fetchSize.maxPartitions());
    fetch(List.copyOf(unreadPartitions.subList(0, count)));
  }

  /** Assigns and pauses partitions that are new to the consumer, and seeks where necessary. */
  private void prepare(Collection<PartitionPosition> positions) {
    List<PartitionPosition> newPositions = positions.stream().filter(assignedPartitions::add).toList();
    if (!newPositions.isEmpty()) {
      newPositions.forEach(p -> p.bufferedSinceBytes = PartitionPosition.NEVER_FETCHED);
      consumer.assign(partitionsOf(assignedPartitions));
      consumer.pause(partitionsOf(newPositions));
    }
    for (PartitionPosition p : positions) {
      if (!p.positioned) {
        consumer.seek(p.partition, p.position);
        p.positioned = true;
        ReaderCounters.SEEKS.increment();
      }
    }
  }

  /** Fetches these partitions and no others. */
  private void fetch(Collection<PartitionPosition> positions) {
    prepare(positions);
    Set<PartitionPosition> partitionsToPause = new LinkedHashSet<>(fetchedPartitions);
    positions.forEach(partitionsToPause::remove);
    consumer.pause(partitionsOf(partitionsToPause));
    fetchedPartitions.removeAll(partitionsToPause);
    List<PartitionPosition> partitionsToResume =
        positions.stream().filter(fetchedPartitions::add).toList();
    partitionsToResume.forEach(
        p -> p.bufferedSinceBytes = Math.min(p.bufferedSinceBytes, total(incomingMetric)));
    consumer.resume(partitionsOf(partitionsToResume));
  }

  private void closeClient() {
    countTraffic();
    consumer.close(Duration.ZERO);
    ReaderCounters.CLOSED_CLIENTS.increment();
  }

  private void replaceClient() {
    assignedPartitions.forEach(p -> p.positioned = false);
    assignedPartitions.clear();
    fetchedPartitions.clear();
    receivedBytes.update(consumer, total(incomingMetric));
    receivedBytes.forgetClient();
    closeClient();
    openClient();
    ReaderCounters.REPLACED_CLIENTS.increment();
    if (closed) { // close() ran meanwhile and closed only the old client
      closeClient();
      throw new IllegalStateException("the consumer is closed");
    }
  }

  private void openClient() {
    Map<String, Object> params = fetchSize.params();
    maxPollRecords = FetchSize.parseInt(params, ConsumerConfig.MAX_POLL_RECORDS_CONFIG);
    consumer = clientFactory.apply(params);
    incomingMetric = findMetric("incoming-byte-total", "consumer-metrics");
    consumedMetric = findMetric("bytes-consumed-total", "consumer-fetch-manager-metrics");
    responsesMetric = findMetric("fetch-total", "consumer-fetch-manager-metrics");
    countedIncomingBytes = 0;
    countedConsumedBytes = 0;
    incomingBytesAtCheck = 0;
    incomingBytesAtWindow = 0;
    polledHeapBytes = 0;
    fetchSize.resetSamples();
    ReaderCounters.CREATED_CLIENTS.increment();
  }

  private void countTraffic() {
    long incomingBytes = total(incomingMetric);
    long consumedBytes = total(consumedMetric);
    ReaderCounters.NETWORK_BYTES.add(incomingBytes - countedIncomingBytes);
    ReaderCounters.CONSUMED_BYTES.add(consumedBytes - countedConsumedBytes);
    countedIncomingBytes = incomingBytes;
    countedConsumedBytes = consumedBytes;
  }

  /** Returns the client's metric over all topics, or null if it has no such metric. */
  private Metric findMetric(String name, String group) {
    return consumer.metrics().values().stream()
        .filter(metric -> metric.metricName().name().equals(name))
        .filter(metric -> metric.metricName().group().equals(group))
        .filter(metric -> !metric.metricName().tags().containsKey("topic"))
        .findFirst()
        .orElse(null);
  }

  static long total(Metric metric) {
    return metric == null ? 0 : (long) (double) metric.metricValue();
  }

  private static Set<TopicPartition> partitionsOf(Collection<PartitionPosition> positions) {
    return positions.stream().map(p -> p.partition).collect(toSet());
  }
}
