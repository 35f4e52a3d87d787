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
 * What is long in a message as columns of numbers: little-endian bytes (base64 in JSON), `int32` for
 * places in a list of names, `int64` for offsets, `float64` for what was measured.
 */
public final class Columns {

  /** What a batch must read. */
  public record Ranges(List<String> topics, byte[] topic, byte[] partition, byte[] start, byte[] end) {
    public static Ranges of(List<OffsetRange> rows) {
      Names topics = new Names();
      return new Ranges(
          topics.names,
          ints(rows, row -> topics.placeOf(row.topic())),
          ints(rows, OffsetRange::partition),
          longs(rows, OffsetRange::start),
          longs(rows, OffsetRange::end));
    }

    public List<OffsetRange> unpack() throws PlannerException {
      ByteBuffer topicPlaces = buffer(topic);
      ByteBuffer partitions = buffer(partition);
      ByteBuffer starts = buffer(start);
      ByteBuffer ends = buffer(end);
      List<OffsetRange> rows = new ArrayList<>();
      try {
        while (topicPlaces.hasRemaining()) {
          rows.add(
              new OffsetRange(
                  topics.get(topicPlaces.getInt()),
                  partitions.getInt(),
                  starts.getLong(),
                  ends.getLong()));
        }
      } catch (RuntimeException e) { // a column ends too early, or names what is not listed
        throw new PlannerException("the columns of ranges do not fit together: " + e, e);
      }
      return rows;
    }
  }

  /**
   * When the records of ranges were written, in milliseconds: the first of each (-1: unknown), and
   * once Kafka was asked for a time, the offset of the first one at or after it (-1: there is none).
   */
  public record Times(long nowMs, byte[] stamp, int lookUps, Long askedMs, byte[] at) {
    public static Times of(
        long nowMs, List<OffsetRange> rows, ToLongFunction<OffsetRange> stamp) {
      return new Times(nowMs, longs(rows, stamp), 0, null, null);
    }

    public Times with(
        int number,
        long asked,
        List<OffsetRange> rows,
        ToLongFunction<OffsetRange> offset) {
      return new Times(nowMs, stamp, number, asked, longs(rows, offset));
    }
  }

  /** The racks that hold a replica; `range` has the place in `sets` of each range, -1: unknown. */
  public record Racks(List<List<String>> sets, byte[] range) {
    public static Racks of(
        List<List<String>> sets,
        List<OffsetRange> rows,
        ToIntFunction<OffsetRange> place) {
      return new Racks(sets, ints(rows, place));
    }

    public long countUnknown() {
      ByteBuffer cells = buffer(range);
      long count = 0;
      while (cells.hasRemaining()) {
        count += cells.getInt() < 0 ? 1 : 0;
      }
      return count;
    }
  }

  /** What finished readers observed. */
  public record Reports(
      List<String> topics,
      List<String> executors,
      byte[] topic,
      byte[] partition,
      byte[] executor,
      byte[] records,
      byte[] bytes,
      byte[] seconds,
      byte[] offsets) {
    public static Reports of(List<ReadReport> rows) {
      Names topics = new Names();
      Names executors = new Names();
      return new Reports(
          topics.names,
          executors.names,
          ints(rows, row -> topics.placeOf(row.topic())),
          ints(rows, ReadReport::partition),
          ints(rows, row -> executors.placeOf(row.executor())),
          doubles(rows, ReadReport::records),
          doubles(rows, ReadReport::bytes),
          doubles(rows, ReadReport::seconds),
          doubles(rows, ReadReport::offsets));
    }
  }

  /** One task of a plan; the executor is null where it may run anywhere. */
  public record Task(
      String executor, int slot, List<OffsetRange> ranges, List<String> standbys) {}

  /**
   * The tasks of a plan: a cell a task in `executor` (a place, or -1), `slot` and `ranges` (how many
   * it reads); a cell a range in the others, those of the first task first.
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
      Map<Integer, List<String>> standbys) {

    public List<Task> unpack() throws PlannerException {
      ByteBuffer places = buffer(executor);
      ByteBuffer slots = buffer(slot);
      ByteBuffer counts = buffer(ranges);
      ByteBuffer topicPlaces = buffer(topic);
      ByteBuffer partitions = buffer(partition);
      ByteBuffer starts = buffer(start);
      ByteBuffer ends = buffer(end);
      List<Task> tasks = new ArrayList<>(counts.remaining() / Integer.BYTES);
      try {
        while (counts.hasRemaining()) {
          int count = counts.getInt();
          List<OffsetRange> read = new ArrayList<>(Math.min(count, 1000));
          for (int i = 0; i < count; i++) {
            read.add(
                new OffsetRange(
                    topics.get(topicPlaces.getInt()),
                    partitions.getInt(),
                    starts.getLong(),
                    ends.getLong()));
          }
          int place = places.getInt();
          tasks.add(
              new Task(
                  place < 0 ? null : executors.get(place),
                  slots.getInt(),
                  read,
                  standbys.getOrDefault(tasks.size(), List.of())));
        }
      } catch (RuntimeException e) { // a column ends too early, or names what is not listed
        throw new PlannerException("the columns of the plan do not fit together: " + e, e);
      }
      return tasks;
    }
  }

  private Columns() {}

  private static <T> byte[] ints(List<T> rows, ToIntFunction<T> cell) {
    ByteBuffer column = column(rows, Integer.BYTES);
    rows.forEach(row -> column.putInt(cell.applyAsInt(row)));
    return column.array();
  }

  private static <T> byte[] longs(List<T> rows, ToLongFunction<T> cell) {
    ByteBuffer column = column(rows, Long.BYTES);
    rows.forEach(row -> column.putLong(cell.applyAsLong(row)));
    return column.array();
  }

  private static <T> byte[] doubles(List<T> rows, ToDoubleFunction<T> cell) {
    ByteBuffer column = column(rows, Double.BYTES);
    rows.forEach(row -> column.putDouble(cell.applyAsDouble(row)));
    return column.array();
  }

  private static ByteBuffer column(List<?> rows, int bytes) {
    return buffer(new byte[rows.size() * bytes]);
  }

  private static ByteBuffer buffer(byte[] column) {
    return ByteBuffer.wrap(column).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Distinct names, in the order in which they come up. */
  private static final class Names {
    final List<String> names = new ArrayList<>();
    private final Map<String, Integer> places = new HashMap<>();

    int placeOf(String name) {
      return places.computeIfAbsent(
          name,
          added -> {
            names.add(added);
            return names.size() - 1;
          });
    }
  }
}
