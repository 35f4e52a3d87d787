package io.assignorbridge.reader;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
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

  private static final long RETRY_MILLIS = 500;

  private static ConsumerPool instance;

  private final List<PooledConsumer> idle = new ArrayList<>(); // oldest first
  private final Set<PooledConsumer> all = ConcurrentHashMap.newKeySet();
  private final FetchDefaults defaults;
  private final Function<Map<String, Object>, Consumer<byte[], byte[]>> maker;
  private final int capacity;
  private final Duration idleTimeout;
  private final ScheduledExecutorService janitor;

  private Set<String> ended = Set.of();

  static synchronized ConsumerPool shared() {
    if (instance == null) {
      SparkConf conf = SparkEnv.get().conf();
      instance = new ConsumerPool(conf, defaults(conf), KafkaConsumer::new);
      Runtime.getRuntime()
          .addShutdownHook(new Thread(instance::closeIdle, "assignor-consumer-pool-shutdown"));
    }
    return instance;
  }

  private static FetchDefaults defaults(SparkConf conf) {
    int cores = conf.getInt("spark.executor.cores", Runtime.getRuntime().availableProcessors());
    int slots = cores / Math.max(1, conf.getInt("spark.task.cpus", 1));
    return FetchDefaults.of(Runtime.getRuntime().maxMemory(), slots);
  }

  ConsumerPool(
      SparkConf conf,
      FetchDefaults defaults,
      Function<Map<String, Object>, Consumer<byte[], byte[]>> maker) {
    this.defaults = defaults;
    this.maker = maker;
    capacity = conf.getInt("spark.kafka.consumer.cache.capacity", 64);
    idleTimeout = Duration.ofMillis(conf.getTimeAsMs("spark.kafka.consumer.cache.timeout", "5m"));
    janitor =
        Executors.newSingleThreadScheduledExecutor(
            task -> {
              Thread thread = new Thread(task, "assignor-consumer-pool");
              thread.setDaemon(true);
              return thread;
            });
    long everyMillis =
        conf.getTimeAsMs("spark.kafka.consumer.cache.evictorThreadRunInterval", "1m");
    if (everyMillis > 0 && !idleTimeout.isZero() && !idleTimeout.isNegative()) {
      janitor.scheduleWithFixedDelay(
          this::evict, everyMillis, everyMillis, TimeUnit.MILLISECONDS);
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
    PooledConsumer found = fresh ? null : takeIdle(stream, slot, params, ranges);
    if (fresh) {
      invalidate(stream, ranges);
    }
    if (found == null) {
      makeRoom();
      found = new PooledConsumer(stream, slot, params, defaults, ranges.size(), maker);
      all.add(found);
      LOG.info("Created {} for {} ranges", found, ranges.size());
    }
    return found;
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

  Traffic traffic() {
    return all.stream().map(PooledConsumer::traffic).reduce(new Traffic(0, 0), Traffic::plus);
  }

  private PooledConsumer takeIdle(
      String stream, int slot, Map<String, Object> params, Collection<RangeCursor> ranges) {
    synchronized (idle) {
      discardIdle(one -> one.stream.equals(stream) && !one.fits(params));
      PooledConsumer best = null;
      int bestScore = 0;
      for (PooledConsumer one : idle) {
        if (!one.stream.equals(stream)) {
          continue;
        }
        int score = 2 * one.overlap(ranges) + (one.slot == slot ? 1 : 0);
        if (score > bestScore) {
          best = one;
          bestScore = score;
        }
      }
      idle.remove(best);
      return best;
    }
  }

  private void invalidate(String stream, Collection<RangeCursor> ranges) {
    synchronized (idle) {
      discardIdle(one -> one.stream.equals(stream) && one.holdsAny(ranges));
    }
  }

  private void discardIdle(Predicate<PooledConsumer> unwanted) {
    List<PooledConsumer> gone = idle.stream().filter(unwanted).toList();
    idle.removeAll(gone);
    gone.forEach(this::discard);
  }

  /** One bound for all idle consumers: the oldest lose what they hold first, not their positions. */
  private void boundIdle() {
    long total = idleBytes();
    for (PooledConsumer one : idle) {
      if (total <= defaults.idleBytes()) {
        return;
      }
      if (one.idleBytes > 0) {
        total -= one.idleBytes;
        one.release();
        ReaderCounters.RELEASED.increment();
      }
    }
  }

  /** The capacity is soft, as Spark's: running tasks always get a consumer. */
  private void makeRoom() {
    synchronized (idle) {
      while (!idle.isEmpty() && all.size() >= capacity) {
        PooledConsumer oldest = idle.remove(0);
        all.remove(oldest);
        discard(oldest);
      }
    }
  }

  private void evict() {
    List<PooledConsumer> expired = new ArrayList<>();
    synchronized (idle) {
      long now = System.nanoTime();
      for (PooledConsumer one : List.copyOf(idle)) {
        if (now - one.idleSinceNanos > idleTimeout.toNanos()) {
          idle.remove(one);
          expired.add(one);
        }
      }
    }
    expired.forEach(this::close);
  }

  private void closeIdle() {
    List<PooledConsumer> left;
    synchronized (idle) {
      left = List.copyOf(idle);
      idle.clear();
    }
    left.forEach(this::close);
  }

  private void close(PooledConsumer consumer) {
    all.remove(consumer);
    try {
      consumer.close();
      LOG.info("Closed {}", consumer);
    } catch (ConcurrentModificationException e) { // a writer thread of the ended task still polls
      all.add(consumer);
      janitor.schedule(() -> close(consumer), RETRY_MILLIS, TimeUnit.MILLISECONDS);
    } catch (RuntimeException e) {
      LOG.warn("Closing {} failed", consumer, e);
    }
  }
}
