package io.assignorbridge.reader;

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
 * The idle consumers of this JVM. A task takes one out and puts it back when it has read all of its
 * ranges without an error, so no consumer is ever used by two tasks and no broken one comes back.
 * Capacity and idle time follow the settings of Spark's own consumer cache.
 */
final class ConsumerPool {
  private static final Logger LOG = LoggerFactory.getLogger(ConsumerPool.class);
  private static final long MIN_BUFFER_BYTES = 16L << 20;
  private static final long MAX_BUFFER_BYTES = 64L << 20;
  private static final int LEAST_SHARES = 4;
  private static final long RETRY_MILLIS = 500;

  private static ConsumerPool instance;

  private final List<PooledConsumer> idle = new ArrayList<>(); // oldest first; guards what follows
  private Set<String> ended = Set.of();
  private int open; // idle or used, not about to be closed

  private final long bufferBytes;
  private final long idleLimitBytes;
  private final Function<Map<String, Object>, Consumer<byte[], byte[]>> maker;
  private final int capacity;
  private final ScheduledExecutorService janitor;

  /** With an eighth of the heap for idle consumers, and another one shared by the task slots. */
  static synchronized ConsumerPool shared() {
    if (instance == null) {
      SparkConf conf = SparkEnv.get().conf();
      int cores = conf.getInt("spark.executor.cores", Runtime.getRuntime().availableProcessors());
      int slots = cores / Math.max(1, conf.getInt("spark.task.cpus", 1));
      long eighth = Runtime.getRuntime().maxMemory() / 8;
      long share = eighth / Math.max(slots, LEAST_SHARES);
      long buffer = FetchSize.clamp(share, MIN_BUFFER_BYTES, MAX_BUFFER_BYTES);
      instance = new ConsumerPool(conf, buffer, eighth, KafkaConsumer::new);
      Runtime.getRuntime()
          .addShutdownHook(new Thread(instance::closeIdle, "assignor-consumer-pool-shutdown"));
    }
    return instance;
  }

  /**
   * @param bufferBytes how many bytes one consumer may have under way for the ranges it reads; the
   *     same again of what it keeps, and of what Kafka's client holds of partitions that wait
   * @param idleLimitBytes how many bytes all idle consumers may hold together
   */
  ConsumerPool(
      SparkConf conf,
      long bufferBytes,
      long idleLimitBytes,
      Function<Map<String, Object>, Consumer<byte[], byte[]>> maker) {
    this.bufferBytes = bufferBytes;
    this.idleLimitBytes = idleLimitBytes;
    this.maker = maker;
    capacity = conf.getInt("spark.kafka.consumer.cache.capacity", 64);
    janitor =
        Executors.newSingleThreadScheduledExecutor(
            task -> {
              Thread thread = new Thread(task, "assignor-consumer-pool");
              thread.setDaemon(true);
              return thread;
            });
    long limitMillis = conf.getTimeAsMs("spark.kafka.consumer.cache.timeout", "5m");
    long limitNanos = TimeUnit.MILLISECONDS.toNanos(limitMillis);
    long everyMillis =
        conf.getTimeAsMs("spark.kafka.consumer.cache.evictorThreadRunInterval", "1m");
    if (everyMillis > 0 && limitNanos > 0) {
      Runnable evict =
          () -> discardIdle(one -> System.nanoTime() - one.idleSinceNanos > limitNanos);
      janitor.scheduleWithFixedDelay(evict, everyMillis, everyMillis, TimeUnit.MILLISECONDS);
    }
  }

  /** Closes what streams that have ended left behind, and what their last tasks still give back. */
  void forget(Collection<String> endedStreams) {
    synchronized (idle) {
      ended = Set.copyOf(endedStreams);
      discardIdle(one -> ended.contains(one.stream));
    }
  }

  /**
   * Takes the idle consumer of the stream out that stands where most of the ranges begin, or one of
   * the same slot if none does; makes one if there is neither.
   *
   * @param fresh whether a new one is wanted whatever is there, as on a task's second attempt; idle
   *     ones that hold the same partitions are closed then
   */
  PooledConsumer take(
      String stream,
      int slot,
      Map<String, Object> params,
      Collection<RangeCursor> ranges,
      boolean fresh) {
    synchronized (idle) {
      discardIdle(
          one ->
              one.stream.equals(stream) && (fresh ? one.holdsAny(ranges) : !one.fits(params)));
      PooledConsumer best = fresh ? null : best(stream, slot, ranges);
      if (best != null) {
        idle.remove(best);
        return best;
      }
      while (!idle.isEmpty() && open >= capacity) { // soft, as Spark's: tasks get a consumer
        discard(idle.remove(0));
      }
    }
    PooledConsumer made = new PooledConsumer(stream, slot, params, bufferBytes, ranges.size(), maker);
    synchronized (idle) {
      open++;
    }
    LOG.info("Created {} for {} ranges", made, ranges.size());
    return made;
  }

  /** Puts a consumer back whose task has ended well. */
  void giveBack(PooledConsumer consumer) {
    consumer.becomeIdle();
    synchronized (idle) {
      if (ended.contains(consumer.stream)) {
        discard(consumer);
        return;
      }
      idle.add(consumer);
      boundIdle();
    }
  }

  /** Closes a consumer, in the background: the task that gave it up need not wait. */
  void discard(PooledConsumer consumer) {
    synchronized (idle) {
      open--;
    }
    try {
      janitor.execute(() -> close(consumer));
    } catch (RejectedExecutionException e) {
      close(consumer);
    }
  }

  int idle() {
    synchronized (idle) {
      return idle.size();
    }
  }

  /** How many bytes idle consumers hold. */
  long idleBytes() {
    synchronized (idle) {
      return idle.stream().mapToLong(one -> one.idleBytes).sum();
    }
  }

  private PooledConsumer best(String stream, int slot, Collection<RangeCursor> ranges) {
    PooledConsumer best = null;
    int bestScore = 0;
    for (PooledConsumer one : idle) {
      if (one.stream.equals(stream)) {
        int score = 2 * one.overlap(ranges) + (one.slot == slot ? 1 : 0);
        best = score > bestScore ? one : best;
        bestScore = Math.max(score, bestScore);
      }
    }
    return best;
  }

  private void discardIdle(Predicate<PooledConsumer> unwanted) {
    synchronized (idle) {
      List<PooledConsumer> gone = idle.stream().filter(unwanted).toList();
      idle.removeAll(gone);
      gone.forEach(this::discard);
    }
  }

  /** One bound for all idle consumers: the oldest lose what they hold first, not their positions. */
  private void boundIdle() {
    long total = idleBytes();
    for (PooledConsumer one : idle) {
      if (total <= idleLimitBytes) {
        return;
      }
      if (one.idleBytes > 0) {
        total -= one.idleBytes;
        one.release();
        ReaderCounters.RELEASED.increment();
      }
    }
  }

  private void closeIdle() {
    synchronized (idle) {
      idle.forEach(this::close);
      idle.clear();
    }
  }

  private void close(PooledConsumer consumer) {
    try {
      consumer.close();
      LOG.info("Closed {}", consumer);
    } catch (ConcurrentModificationException e) { // a writer thread of the ended task still polls
      janitor.schedule(() -> close(consumer), RETRY_MILLIS, TimeUnit.MILLISECONDS);
    } catch (RuntimeException e) {
      LOG.warn("Closing {} failed", consumer, e);
    }
  }
}
