package io.assignorbridge.reader;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;

/**
 * A Kafka consumer with the places where it stands in its partitions. Between two uses all of its
 * partitions are paused, positioned and hold what was fetched ahead. Used by one task at a time.
 */
final class PooledConsumer {
  /** After so many uses a partition that was not read is forgotten: it may have left the stream. */
  private static final int USES_TO_REMEMBER = 16;

  /** Fewer partitions are read to their ends before it is worth to ask for larger fetches. */
  private static final int LEAST_TO_FIT_BATCHES = 8;

  final String stream;
  final int slot;

  /** When and with how many bytes it became idle. */
  long idleSinceNanos;

  long idleBytes;

  private final Map<String, Object> sparkParams;
  private final SecuredParams secured;
  private final FetchDefaults defaults;
  private final Feed feed;
  private final Map<TopicPartition, Standing> standings = new HashMap<>();

  /** What is read: partitions that are fetched, and those that wait for their turn. */
  private final List<Standing> open = new ArrayList<>();

  private final ArrayDeque<Standing> waiting = new ArrayDeque<>();
  private long uses;
  private boolean keptGrew;

  PooledConsumer(
      String stream,
      int slot,
      Map<String, Object> sparkParams,
      FetchDefaults defaults,
      int partitions,
      Function<Map<String, Object>, Consumer<byte[], byte[]>> maker) {
    this.stream = stream;
    this.slot = slot;
    this.sparkParams = sparkParams;
    this.secured = new SecuredParams(sparkParams);
    this.defaults = defaults;
    this.feed = new Feed(secured.params(), defaults, partitions, maker);
  }

  /** How many of the ranges begin where this consumer stands. */
  int overlap(Collection<RangeCursor> ranges) {
    int count = 0;
    for (RangeCursor range : ranges) {
      Standing standing = standings.get(range.partition);
      if (standing != null && standing.covers(range.start)) {
        count++;
      }
    }
    return count;
  }

  boolean holdsAny(Collection<RangeCursor> ranges) {
    return ranges.stream().anyMatch(range -> standings.containsKey(range.partition));
  }

  /** Whether a new consumer would have the same parameters. */
  boolean fits(Map<String, Object> params) {
    return sparkParams.equals(params) && !secured.isOutdated();
  }

  /** A task begins to use the consumer. */
  void beginUse() {
    uses++;
    if (uses % USES_TO_REMEMBER == 0) {
      Predicate<Standing> unread = one -> uses - one.lastUse > USES_TO_REMEMBER;
      feed.drop(standings.values().stream().filter(unread).toList());
      standings.values().removeIf(unread);
    }
  }

  /**
   * Begins to read ranges, of different partitions, and gives what is held of them already.
   *
   * @param ranges the ranges, with the start that they have left
   * @param out receives the kept records
   */
  void begin(List<RangeCursor> ranges, List<Chunk> out) {
    feed.fit(ranges.size());
    for (RangeCursor range : ranges) {
      Standing standing = standings.computeIfAbsent(range.partition, Standing::new);
      if (!standing.covers(range.start)) {
        standing.resetTo(range.start);
      }
      standing.lastUse = uses;
      standing.reading = range;
      deliver(standing, standing.takeKept(range.start), out);
      if (standing.reading != null && standing.position >= range.until) {
        finish(standing, List.of());
      }
      if (standing.reading != null) {
        waiting.add(standing);
      }
    }
    if (!waiting.isEmpty()) {
      feed.prepare(waiting);
      fetchNext();
    }
  }

  /** Whether ranges are left that need a poll. */
  boolean isReading() {
    return !open.isEmpty();
  }

  /**
   * Polls once.
   *
   * @param out receives the records, those beyond a range's end are kept
   * @return whether any range came forward
   * @throws OffsetOutOfRangeException as Kafka does; the records before are in {@code out}
   */
  boolean poll(Duration timeout, List<Chunk> out) {
    ConsumerRecords<byte[], byte[]> polled = feed.poll(timeout, open);
    boolean forward = false;
    for (TopicPartition partition : polled.partitions()) {
      List<ConsumerRecord<byte[], byte[]>> records = polled.records(partition);
      Standing standing = standings.get(partition);
      if (standing.reading == null) { // paused partitions bring none; should one, it is read again
        standing.lose();
        continue;
      }
      standing.position = records.get(records.size() - 1).offset() + 1;
      deliver(standing, records, out);
      forward = true;
    }
    forward |= catchUp();
    if (open.size() + waiting.size() >= LEAST_TO_FIT_BATCHES && feed.fitBatches()) {
      open.forEach(waiting::addFirst);
      open.clear();
      feed.prepare(waiting);
      fetchNext();
    }
    return forward;
  }

  /**
   * Stops reading the partitions that are out of range and gives what is left of their ranges, by
   * partition the offset that comes next; nothing, if no range is read of any of them.
   */
  Map<RangeCursor, Long> giveUp(OffsetOutOfRangeException error) {
    Map<RangeCursor, Long> left = new HashMap<>();
    for (TopicPartition partition : error.offsetOutOfRangePartitions().keySet()) {
      Standing standing = standings.get(partition);
      if (standing == null) {
        continue;
      }
      feed.seekAgain(standing);
      if (standing.reading != null) {
        left.put(standing.reading, standing.position);
      }
      abandon(standing);
    }
    pauseDone();
    return left;
  }

  /** Stops reading one range that does not come forward; as {@link #giveUp}. */
  Map.Entry<RangeCursor, Long> giveUpFirst() {
    Standing standing = open.get(0);
    Map.Entry<RangeCursor, Long> left = Map.entry(standing.reading, standing.position);
    abandon(standing);
    pauseDone();
    return left;
  }

  /** The task has ended well: what is held now stays held. */
  void becomeIdle() {
    idleSinceNanos = System.nanoTime();
    idleBytes = keptBytes() + feed.ahead();
  }

  /** Gives all records back that an idle consumer holds, its connections and positions stay. */
  void release() {
    standings.values().forEach(Standing::dropKept);
    feed.dropAll();
    idleBytes = 0;
  }

  Traffic traffic() {
    return feed.traffic();
  }

  void close() {
    feed.close();
  }

  @Override
  public String toString() {
    return "consumer of " + standings.size() + " partitions for stream " + stream + ", slot " + slot;
  }

  /** Hands over the records below the range's end; those above are kept and the range is done. */
  private void deliver(
      Standing standing, List<ConsumerRecord<byte[], byte[]>> records, List<Chunk> out) {
    if (records.isEmpty()) {
      return;
    }
    RangeCursor range = standing.reading;
    int end = Standing.firstAtOrAbove(records, range.until);
    if (end > 0) {
      out.add(new Chunk(range, end == records.size() ? records : records.subList(0, end)));
    }
    if (end < records.size()) {
      finish(standing, records.subList(end, records.size()));
    }
  }

  /** Ends ranges whose last offsets are no records (markers, aborted, compacted). */
  private boolean catchUp() {
    boolean forward = false;
    for (Standing standing : open) {
      if (standing.reading == null) {
        continue;
      }
      long position = feed.positionOf(standing);
      if (position > standing.position) {
        standing.position = position;
        forward = true;
      }
      if (standing.position >= standing.reading.until) {
        finish(standing, List.of());
      }
    }
    pauseDone();
    return forward;
  }

  private void finish(Standing standing, List<ConsumerRecord<byte[], byte[]>> beyond) {
    standing.keep(standing.reading.until, beyond);
    standing.reading = null;
    keptGrew |= !beyond.isEmpty();
  }

  private void abandon(Standing standing) {
    standing.reading = null;
    standing.lose();
  }

  private void pauseDone() {
    List<Standing> done =
        Stream.concat(open.stream(), waiting.stream()).filter(one -> one.reading == null).toList();
    if (!done.isEmpty()) {
      feed.park(done);
      open.removeIf(one -> one.reading == null);
      waiting.removeIf(one -> one.reading == null);
      fetchNext();
    }
    if (keptGrew) {
      keptGrew = false;
      boundKept();
    }
  }

  /** Lets as many partitions be fetched at a time as the buffer has room for. */
  private void fetchNext() {
    List<Standing> next = new ArrayList<>();
    while (!waiting.isEmpty() && open.size() + next.size() < feed.width()) {
      next.add(waiting.poll());
    }
    if (!next.isEmpty()) {
      open.addAll(next);
      feed.resume(next);
    }
  }

  private long keptBytes() {
    return standings.values().stream().mapToLong(one -> one.keptBytes).sum();
  }

  /** Keeps within the buffer: what was not read lately goes first, then the largest. */
  private void boundKept() {
    long total = keptBytes();
    if (total <= defaults.bufferBytes()) {
      return;
    }
    List<Standing> holders = new ArrayList<>(standings.values());
    holders.sort(
        Comparator.<Standing>comparingLong(one -> one.lastUse)
            .thenComparingLong(one -> -one.keptBytes));
    for (Standing standing : holders) {
      if (total <= defaults.bufferBytes()) {
        return;
      }
      total -= standing.keptBytes;
      standing.dropKept();
    }
  }
}
