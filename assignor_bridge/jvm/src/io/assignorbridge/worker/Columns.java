package io.assignorbridge.worker;

import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.model.ReadReport;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import java.util.function.ToIntFunction;
import java.util.function.ToLongFunction;

/**
 * A message's tables as columns of little-endian numbers (base64 in JSON): `int32` for indexes,
 * partitions, slots, and counts in plans, `int64` for offsets and timestamps, `float64` for the
 * counts and times of read reports and the predicted seconds of tail tasks.
 */
public final class Columns {

  /** Offset ranges as columns, one row per range; `topic` has indexes in `topics`. */
  public record Ranges(List<String> topics, byte[] topic, byte[] partition, byte[] start, byte[] end) {
    public static Ranges of(List<OffsetRange> rows) {
      Names topics = new Names();
      return new Ranges(
          topics.names,
          packInts(rows, row -> topics.indexOf(row.topic())),
          packInts(rows, OffsetRange::partition),
          packLongs(rows, OffsetRange::start),
          packLongs(rows, OffsetRange::end));
    }

    public List<OffsetRange> unpack() throws PlannerException {
      ByteBuffer topicIndexes = wrap(topic);
      ByteBuffer partitions = wrap(partition);
      ByteBuffer starts = wrap(start);
      ByteBuffer ends = wrap(end);
      List<OffsetRange> rows = new ArrayList<>();
      try {
        while (topicIndexes.hasRemaining()) {
          rows.add(
              new OffsetRange(
                  topics.get(topicIndexes.getInt()),
                  partitions.getInt(),
                  starts.getLong(),
                  ends.getLong()));
        }
      } catch (RuntimeException e) { // a column is too short, or an index is out of range
        throw new PlannerException("the range columns are inconsistent: " + e, e);
      }
      return rows;
    }
  }

  /**
   * Timestamps in milliseconds. `stamp` is the timestamp of each range's first record (-1 if none).
   * After `lookUps` look-ups, `at` is each partition's first offset from time `askedMs` on (-1 if
   * none); before the first one, `at` and `askedMs` are null.
   */
  public record Times(long nowMs, byte[] stamp, int lookUps, Long askedMs, byte[] at) {
    public static Times of(long nowMs, List<OffsetRange> rows, ToLongFunction<OffsetRange> stamp) {
      return new Times(nowMs, packLongs(rows, stamp), 0, null, null);
    }

    public Times withLookUp(
        int lookUpCount, long askedMs, List<OffsetRange> rows, ToLongFunction<OffsetRange> offset) {
      return new Times(nowMs, stamp, lookUpCount, askedMs, packLongs(rows, offset));
    }
  }

  /** The racks from which each range can be read, as indexes in `sets` (-1 if unknown). */
  public record Racks(List<List<String>> sets, byte[] range) {
    public static Racks of(
        List<List<String>> sets, List<OffsetRange> rows, ToIntFunction<OffsetRange> index) {
      return new Racks(sets, packInts(rows, index));
    }

    public long countUnknown() {
      ByteBuffer setIndexes = wrap(range);
      long count = 0;
      while (setIndexes.hasRemaining()) {
        count += setIndexes.getInt() < 0 ? 1 : 0;
      }
      return count;
    }
  }

  /** The reports of finished readers, one row per range. */
  public record Reports(
      List<String> topics,
      List<String> executors,
      byte[] topic,
      byte[] partition,
      byte[] executor,
      byte[] records,
      byte[] bytes,
      byte[] seconds,
      byte[] coldSeconds,
      byte[] offsets) {
    public static Reports of(List<ReadReport> rows) {
      Names topics = new Names();
      Names executors = new Names();
      return new Reports(
          topics.names,
          executors.names,
          packInts(rows, row -> topics.indexOf(row.topic())),
          packInts(rows, ReadReport::partition),
          packInts(rows, row -> executors.indexOf(row.executor())),
          packDoubles(rows, ReadReport::records),
          packDoubles(rows, ReadReport::bytes),
          packDoubles(rows, ReadReport::seconds),
          packDoubles(rows, ReadReport::coldSeconds),
          packDoubles(rows, ReadReport::offsets));
    }
  }

  /**
   * One task of a plan. The executor is null if the task may run anywhere, or for a tail task. The
   * tail is null except for a tail task.
   */
  public record Task(
      String executor, int slot, List<OffsetRange> ranges, List<String> standbys, Tail tail) {}

  /** The predicted seconds of a tail task, and the executors that it prefers equally. */
  public record Tail(double seconds, List<String> executors) {}

  /**
   * The tasks of a plan: heads, then tail tasks. `executor` (an index, or -1), `slot`, and `ranges`
   * (a count) have one cell per task. `tailSeconds` and `tailExecutors` (a count) have one per tail
   * task, and `tailExecutor` has the indexes of their executors. The other columns have one per
   * range, in task order. `standbys` has executors by task index, for tasks that have any.
   */
  public record Tasks(
      List<String> executors,
      List<String> topics,
      byte[] executor,
      byte[] slot,
      byte[] ranges,
      byte[] topic,
      byte[] partition,
      byte[] start,
      byte[] end,
      Map<Integer, List<String>> standbys,
      byte[] tailSeconds,
      byte[] tailExecutors,
      byte[] tailExecutor) {

    public List<Task> unpack() throws PlannerException {
      ByteBuffer executorIndexes = wrap(executor);
      ByteBuffer slots = wrap(slot);
      ByteBuffer rangeCounts = wrap(ranges);
      ByteBuffer topicIndexes = wrap(topic);
      ByteBuffer partitions = wrap(partition);
      ByteBuffer starts = wrap(start);
      ByteBuffer ends = wrap(end);
      ByteBuffer secondsOfTails = wrap(tailSeconds);
      ByteBuffer tailExecutorCounts = wrap(tailExecutors);
      ByteBuffer tailExecutorIndexes = wrap(tailExecutor);
      int headCount = ranges.length / Integer.BYTES - tailSeconds.length / Double.BYTES;
      List<Task> tasks = new ArrayList<>(rangeCounts.remaining() / Integer.BYTES);
      try {
        while (rangeCounts.hasRemaining()) {
          int rangeCount = rangeCounts.getInt();
          List<OffsetRange> taskRanges = new ArrayList<>(Math.min(rangeCount, 1000));
          for (int i = 0; i < rangeCount; i++) {
            taskRanges.add(
                new OffsetRange(
                    topics.get(topicIndexes.getInt()),
                    partitions.getInt(),
                    starts.getLong(),
                    ends.getLong()));
          }
          int executorIndex = executorIndexes.getInt();
          Tail tail = null;
          if (tasks.size() >= headCount) {
            List<String> tailExecutorIds = new ArrayList<>();
            for (int i = tailExecutorCounts.getInt(); i > 0; i--) {
              tailExecutorIds.add(executors.get(tailExecutorIndexes.getInt()));
            }
            tail = new Tail(secondsOfTails.getDouble(), tailExecutorIds);
          }
          tasks.add(
              new Task(
                  executorIndex < 0 ? null : executors.get(executorIndex),
                  slots.getInt(),
                  taskRanges,
                  standbys.getOrDefault(tasks.size(), List.of()),
                  tail));
        }
      } catch (RuntimeException e) { // a column is too short, or an index is out of range
        throw new PlannerException("the plan's columns are inconsistent: " + e, e);
      }
      return tasks;
    }
  }

  private Columns() {}

  private static <T> byte[] packInts(List<T> rows, ToIntFunction<T> toCell) {
    ByteBuffer column = allocateColumn(rows, Integer.BYTES);
    rows.forEach(row -> column.putInt(toCell.applyAsInt(row)));
    return column.array();
  }

  private static <T> byte[] packLongs(List<T> rows, ToLongFunction<T> toCell) {
    ByteBuffer column = allocateColumn(rows, Long.BYTES);
    rows.forEach(row -> column.putLong(toCell.applyAsLong(row)));
    return column.array();
  }

  private static <T> byte[] packDoubles(List<T> rows, ToDoubleFunction<T> toCell) {
    ByteBuffer column = allocateColumn(rows, Double.BYTES);
    rows.forEach(row -> column.putDouble(toCell.applyAsDouble(row)));
    return column.array();
  }

  private static ByteBuffer allocateColumn(List<?> rows, int bytesPerCell) {
    return wrap(new byte[rows.size() * bytesPerCell]);
  }

  private static ByteBuffer wrap(byte[] column) {
    return ByteBuffer.wrap(column).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Distinct names, in order of first use. */
  private static final class Names {
    final List<String> names = new ArrayList<>();
    private final Map<String, Integer> indexByName = new HashMap<>();

    int indexOf(String name) {
      return indexByName.computeIfAbsent(
          name,
          newName -> {
            names.add(newName);
            return names.size() - 1;
          });
    }
  }
}
