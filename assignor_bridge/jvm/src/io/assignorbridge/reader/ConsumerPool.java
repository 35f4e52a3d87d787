package io.assignorbridge.reader;

import io.assignorbridge.model.LatestOnlyExecutor;
import java.util.ArrayList;
import java.util.Collection;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The idle consumers of this JVM. A task takes a consumer out and returns it after reading all of
 * its ranges without an error. Two tasks therefore never share a consumer, and the pool never holds
 * a broken one. Capacity and idle time follow the settings of Spark's own consumer cache.
 */
final class ConsumerPool {
  private static final Logger LOG = LoggerFactory.getLogger(ConsumerPool.class);
  private static final long MIN_BUFFER_BYTES = 16L << 20;
  private static final long MAX_BUFFER_BYTES = 64L << 20;
  private static final int MIN_BUFFERS = 4; // even with fewer slots
  private static final long CLOSE_RETRY_MILLIS = 500;

  private static ConsumerPool instance;
  private final List<PooledConsumer> idleConsumers = new ArrayList<>(); // oldest first; also the lock
  private Set<String> endedStreams = Set.of(); // lock: idleConsumers
  private int openCount; // idle or in use, but not discarded; lock: idleConsumers
  private final long bufferBytes;
  private final long idleLimitBytes;
  private final Function<Map<String, Object>, Consumer<byte[], byte[]>> clientFactory;
  private final int capacity;
  private final ScheduledExecutorService janitor;

  /** Returns the JVM's pool: buffers of 16 to 64 MiB, an eighth of the heap for idle consumers. */
  static synchronized ConsumerPool shared() {
    if (instance == null) {
      SparkConf conf = SparkEnv.get().conf();
      int cores = conf.getInt("spark.executor.cores", Runtime.getRuntime().availableProcessors());
      int slots = cores / Math.max(1, conf.getInt("spark.task.cpus", 1));
      long eighthOfHeap = Runtime.getRuntime().maxMemory() / 8;
      long slotBytes = eighthOfHeap / Math.max(slots, MIN_BUFFERS);
      long bufferBytes = FetchSize.clamp(slotBytes, MIN_BUFFER_BYTES, MAX_BUFFER_BYTES);
      instance = new ConsumerPool(conf, bufferBytes, eighthOfHeap, KafkaConsumer::new);
      Runtime.getRuntime()
          .addShutdownHook(new Thread(instance::closeIdle, "assignor-consumer-pool-shutdown"));
    }
    return instance;
  }

  /**
   * @param bufferBytes limit for a consumer's fetches in progress; also, separately, for the records
   *     that it keeps, and for Kafka's buffers of paused partitions
   * @param idleLimitBytes limit for the bytes that all idle consumers hold together
   */
  ConsumerPool(
      SparkConf conf,
      long bufferBytes,
      long idleLimitBytes,
      Function<Map<String, Object>, Consumer<byte[], byte[]>> clientFactory) {
    this.bufferBytes = bufferBytes;
    this.idleLimitBytes = idleLimitBytes;
    this.clientFactory = clientFactory;
    capacity = conf.getInt("spark.kafka.consumer.cache.capacity", 64);
    janitor =
        Executors.newSingleThreadScheduledExecutor(
            LatestOnlyExecutor.createDaemonFactory("assignor-consumer-pool"));
    long idleLimitMillis = conf.getTimeAsMs("spark.kafka.consumer.cache.timeout", "5m");
    long idleLimitNanos = TimeUnit.MILLISECONDS.toNanos(idleLimitMillis);
    long intervalMillis =
        conf.getTimeAsMs("spark.kafka.consumer.cache.evictorThreadRunInterval", "1m");
    if (intervalMillis > 0 && idleLimitNanos > 0) {
      Runnable evict =
          () -> discardIdle(c -> System.nanoTime() - c.idleSinceNanos > idleLimitNanos);
      janitor.scheduleWithFixedDelay(evict, intervalMillis, intervalMillis, TimeUnit.MILLISECONDS);
    }
  }

  /** Closes the consumers of ended streams: idle ones now, others when their task returns them. */
  void closeEnded(Collection<String> streams) {
    synchronized (idleConsumers) {
      endedStreams = Set.copyOf(streams);
      discardIdle(c -> endedStreams.contains(c.stream));
    }
  }

  /**
   * Takes the stream's idle consumer that is positioned at the start of the most ranges, or else
   * one of the same slot; creates one if there is neither. Closes those with other parameters.
   *
   * @param mustCreate whether to create a consumer in any case, as for a task's second attempt; idle
   *     consumers that hold the same partitions are then closed
   */
  PooledConsumer take(
      String stream,
      int slot,
      Map<String, Object> params,
      Collection<RangeCursor> ranges,
      boolean mustCreate) {
    synchronized (idleConsumers) {
      discardIdle(
          c ->
              c.stream.equals(stream) && (mustCreate ? c.hasAnyPosition(ranges) : !c.hasParams(params)));
      PooledConsumer bestConsumer = mustCreate ? null : findBest(stream, slot, ranges);
      if (bestConsumer != null) {
        idleConsumers.remove(bestConsumer);
        return bestConsumer;
      }
      while (!idleConsumers.isEmpty() && openCount >= capacity) { // soft limit, like Spark's
        discard(idleConsumers.remove(0));
      }
    }
    PooledConsumer newConsumer =
        new PooledConsumer(stream, slot, params, bufferBytes, ranges.size(), clientFactory);
    synchronized (idleConsumers) {
      openCount++;
    }
    LOG.info("Created {}, ranges: {}", newConsumer, ranges.size());
    return newConsumer;
  }

  /** Returns a consumer to the pool after its task has succeeded. */
  void giveBack(PooledConsumer consumer) {
    consumer.becomeIdle();
    synchronized (idleConsumers) {
      if (endedStreams.contains(consumer.stream)) {
        discard(consumer);
        return;
      }
      idleConsumers.add(consumer);
      releaseExcess();
    }
  }

  /** Closes a consumer in the background, so that the task does not wait. */
  void discard(PooledConsumer consumer) {
    synchronized (idleConsumers) {
      openCount--;
    }
    try {
      janitor.execute(() -> close(consumer));
    } catch (RejectedExecutionException e) {
      close(consumer);
    }
  }

  int countIdle() {
    synchronized (idleConsumers) {
      return idleConsumers.size();
    }
  }

  long idleBytes() {
    synchronized (idleConsumers) {
      return idleConsumers.stream().mapToLong(consumer -> consumer.idleBytes).sum();
    }
  }

  private PooledConsumer findBest(String stream, int slot, Collection<RangeCursor> ranges) {
    PooledConsumer bestConsumer = null;
    int bestScore = 0;
    for (PooledConsumer consumer : idleConsumers) {
      if (consumer.stream.equals(stream)) {
        int score = 2 * consumer.countCoveredStarts(ranges) + (consumer.slot == slot ? 1 : 0);
        bestConsumer = score > bestScore ? consumer : bestConsumer;
        bestScore = Math.max(score, bestScore);
      }
    }
    return bestConsumer;
  }

  private void discardIdle(Predicate<PooledConsumer> isUnwanted) {
    synchronized (idleConsumers) {
      List<PooledConsumer> unwantedConsumers = idleConsumers.stream().filter(isUnwanted).toList();
      idleConsumers.removeAll(unwantedConsumers);
      unwantedConsumers.forEach(this::discard);
    }
  }

  /** Releases records of the oldest idle consumers until the limit is met; keeps the positions. */
  private void releaseExcess() {
    long totalBytes = idleBytes();
    for (PooledConsumer consumer : idleConsumers) {
      if (totalBytes <= idleLimitBytes) {
        return;
      }
      if (consumer.idleBytes > 0) {
        totalBytes -= consumer.idleBytes;
        consumer.release();
        ReaderCounters.RELEASED_CONSUMERS.increment();
      }
    }
  }

  private void closeIdle() {
    synchronized (idleConsumers) {
      idleConsumers.forEach(this::close);
      idleConsumers.clear();
    }
  }

  private void close(PooledConsumer consumer) {
    try {
      consumer.close();
      LOG.info("Closed {}", consumer);
    } catch (ConcurrentModificationException e) { // a thread of the ended task is polling
      janitor.schedule(() -> close(consumer), CLOSE_RETRY_MILLIS, TimeUnit.MILLISECONDS);
    } catch (RuntimeException e) {
      LOG.warn("could not close {}", consumer, e);
    }
  }
}
