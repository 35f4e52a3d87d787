package io.assignorbridge.reader;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Kafka's consumer under a {@link PooledConsumer}, with a bound on what its buffer holds. Kafka
 * fetches ahead beyond a range's end; that stays in the buffer while the partition is paused, and
 * with it the whole answer of the broker that it came in. How much that is Kafka does not tell, but
 * it is no more than what came over the network since the oldest such partition was last empty.
 */
final class Feed {
  private final FetchDefaults defaults;
  private final Map<String, Object> params;
  private final Function<Map<String, Object>, Consumer<byte[], byte[]>> maker;
  private final boolean sizedByUser;
  private final LoneAnswers loneAnswers = new LoneAnswers();

  /** Standings whose partitions are assigned, and those of them that wait, paused. */
  private final Set<Standing> assigned = new LinkedHashSet<>();

  private final Set<Standing> parked = new LinkedHashSet<>();

  private volatile Consumer<byte[], byte[]> consumer; // counters are read by other threads
  private Metric incoming;
  private Metric answers;
  private long partitionBytes;
  private int maxPollRecords;
  private boolean batchesAreLarge;
  private long checkedAt;
  private volatile boolean closed; // by the pool's thread, maybe while a thread of the task polls

  Feed(
      Map<String, Object> params,
      FetchDefaults defaults,
      int partitions,
      Function<Map<String, Object>, Consumer<byte[], byte[]>> maker) {
    this.params = params;
    this.defaults = defaults;
    this.maker = maker;
    this.sizedByUser = params.containsKey(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG);
    make(defaults.partitionBytes(partitions));
  }

  /** How many partitions may be fetched at a time. */
  int width() {
    return defaults.width(partitionBytes);
  }

  /** Makes fetches smaller when many more partitions are to be read than it was made for. */
  void fit(int partitions) {
    if (!sizedByUser && !batchesAreLarge && defaults.tooLarge(partitionBytes, partitions)) {
      replace(defaults.partitionBytes(partitions));
    }
  }

  /**
   * Asks for more of a partition when producers' batches turned out not to fit.
   *
   * @return whether nothing is assigned any more, for the consumer is another one now
   */
  boolean fitBatches() {
    long batch = sizedByUser ? 0 : loneAnswers.largeBatchBytes(partitionBytes);
    long wanted = batch == 0 ? 0 : defaults.partitionBytesFor(batch);
    if (wanted <= partitionBytes) {
      return false;
    }
    batchesAreLarge = true;
    replace(wanted);
    return true;
  }

  /** Has the partitions assigned and positioned; they stay paused. */
  void prepare(Collection<Standing> standings) {
    boolean changed = false;
    long now = incoming();
    for (Standing one : standings) {
      parked.remove(one);
      if (assigned.add(one)) {
        one.assigned = true;
        one.mark = now;
        changed = true;
      }
    }
    if (changed) {
      consumer.assign(partitionsOf(assigned));
    }
    for (Standing one : standings) {
      if (!one.positioned) {
        consumer.seek(one.partition, one.position);
        one.positioned = true;
        ReaderCounters.SEEKS.increment();
      }
    }
    consumer.pause(partitionsOf(standings));
  }

  void resume(Collection<Standing> standings) {
    consumer.resume(partitionsOf(standings));
  }

  /** Pauses what is not read any more; what Kafka holds of it stays, within the bound. */
  void park(Collection<Standing> standings) {
    consumer.pause(partitionsOf(standings));
    parked.addAll(standings);
    long now = incoming();
    if (now - checkedAt >= defaults.bufferBytes() / 8) {
      checkedAt = now;
      if (ahead() > defaults.bufferBytes()) {
        long oldest = now - defaults.bufferBytes() / 2;
        drop(parked.stream().filter(one -> one.mark < oldest).toList());
      }
    }
  }

  /** Gives partitions up with all that Kafka holds of them; their positions are still known. */
  void drop(Collection<Standing> standings) {
    boolean changed = false;
    for (Standing one : standings) {
      changed |= assigned.remove(one);
      parked.remove(one);
      one.assigned = false;
      one.positioned = false;
    }
    if (changed) {
      consumer.assign(partitionsOf(assigned));
    }
  }

  void dropAll() {
    drop(new ArrayList<>(assigned));
  }

  /** At most so many bytes lie in Kafka's buffer for partitions that are paused. */
  long ahead() {
    long oldest = Long.MAX_VALUE;
    for (Standing one : parked) {
      oldest = Math.min(oldest, one.mark);
    }
    return parked.isEmpty() ? 0 : incoming() - oldest;
  }

  ConsumerRecords<byte[], byte[]> poll(Duration timeout, Collection<Standing> reading) {
    ReaderCounters.POLLS.increment();
    long bytesBefore = incoming();
    long answersBefore = value(answers);
    ConsumerRecords<byte[], byte[]> polled = consumer.poll(timeout);
    loneAnswers.add(
        value(answers) - answersBefore, incoming() - bytesBefore, polled.partitions());
    if (polled.count() < maxPollRecords) { // nothing is left in the buffer of what is read
      reading.forEach(one -> one.mark = bytesBefore);
    }
    return polled;
  }

  /** Ends a failing check of a position's leader epoch, which would be raised again and again. */
  void seekAgain(Standing standing) {
    if (standing.positioned) {
      consumer.seek(standing.partition, standing.position);
    }
  }

  long positionOf(Standing standing) {
    try {
      return consumer.position(standing.partition, Duration.ZERO);
    } catch (TimeoutException e) { // its leader has changed and is being asked: nothing new yet
      return standing.position;
    }
  }

  Traffic traffic() {
    double consumed = 0;
    double network = 0;
    for (Map.Entry<MetricName, ? extends Metric> entry : consumer.metrics().entrySet()) {
      if (isTotal(entry.getKey(), "bytes-consumed-total", "consumer-fetch-manager-metrics")) {
        consumed += (double) entry.getValue().metricValue();
      } else if (isTotal(entry.getKey(), "incoming-byte-total", "consumer-metrics")) {
        network += (double) entry.getValue().metricValue();
      }
    }
    return new Traffic((long) consumed, (long) network);
  }

  void close() {
    closed = true;
    closeClient();
  }

  private void closeClient() {
    Traffic last = traffic();
    consumer.close(Duration.ZERO);
    ReaderCounters.CONSUMED_BYTES.add(last.consumedBytes());
    ReaderCounters.NETWORK_BYTES.add(last.networkBytes());
    ReaderCounters.CLOSED.increment();
  }

  private void replace(long wantedPartitionBytes) {
    for (Standing one : assigned) {
      one.assigned = false;
      one.positioned = false;
    }
    assigned.clear();
    parked.clear();
    closeClient();
    make(wantedPartitionBytes);
    ReaderCounters.REPLACED.increment();
    if (closed) { // meanwhile: who closed it has seen the old client only
      closeClient();
      throw new IllegalStateException("the consumer is closed");
    }
  }

  private void make(long wantedPartitionBytes) {
    Map<String, Object> all = defaults.applyTo(params, wantedPartitionBytes);
    partitionBytes = number(all, ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG);
    maxPollRecords = (int) number(all, ConsumerConfig.MAX_POLL_RECORDS_CONFIG);
    consumer = maker.apply(all);
    incoming = null;
    answers = null;
    consumer
        .metrics()
        .forEach(
            (name, metric) -> {
              if (isTotal(name, "incoming-byte-total", "consumer-metrics")) {
                incoming = metric;
              } else if (isTotal(name, "fetch-total", "consumer-fetch-manager-metrics")) {
                answers = metric;
              }
            });
    checkedAt = 0;
    loneAnswers.forget();
    ReaderCounters.CREATED.increment();
  }

  private long incoming() {
    return value(incoming);
  }

  private static long value(Metric metric) {
    return metric == null ? 0 : (long) (double) metric.metricValue();
  }

  private static boolean isTotal(MetricName name, String of, String group) {
    return name.name().equals(of)
        && name.group().equals(group)
        && !name.tags().containsKey("topic");
  }

  /** A setting as Kafka itself reads it: a number, or a text with spaces around it. */
  private static long number(Map<String, Object> params, String name) {
    return (Integer) ConfigDef.parseType(name, params.get(name), ConfigDef.Type.INT);
  }

  private static Set<TopicPartition> partitionsOf(Collection<Standing> standings) {
    Set<TopicPartition> partitions = new HashSet<>(standings.size() * 2);
    standings.forEach(one -> partitions.add(one.partition));
    return partitions;
  }
}
