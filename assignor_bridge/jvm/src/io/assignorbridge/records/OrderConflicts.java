package io.assignorbridge.records;

import java.io.Serializable;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.api.java.UDF5;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.AccumulatorV2;

/**
 * Counts upsert records whose order Kafka does not define, while the merge reads them.
 *
 * <p>The class registers two SQL functions that return true. {@code NAME_seen} compares each record
 * of a batch with the other records of its key. To bound memory, it compares only the keys with the
 * {@value #MAX_KEYS} smallest hashes: all keys of a small batch, a random sample of a large one.
 * {@code NAME_found} counts each record that contradicts the table's row, which the merge checks.
 */
public final class OrderConflicts {
  private static final int MAX_KEYS = 1024;

  private final ConflictCounter counter;

  /**
   * Registers the functions. With `byTimestamp`, records of a key conflict if they share a
   * partition and their timestamps contradict their offsets. Otherwise, they conflict if they do
   * not share a partition.
   */
  public OrderConflicts(SparkSession session, String name, boolean byTimestamp) {
    counter = new ConflictCounter(byTimestamp);
    session.sparkContext().register(counter);
    session.udf().register(name + "_seen", new SeenFunction(counter), DataTypes.BooleanType);
    session.udf().register(name + "_found", new FoundFunction(counter), DataTypes.BooleanType);
  }

  /** Returns the number of conflicting keys plus conflicts with the table, and resets both. */
  public long take() {
    long conflicts = counter.value();
    counter.reset();
    return conflicts;
  }

  /** Returns "partition P, offset O" of a conflicting record, or ""; call it before `take`. */
  public String example() {
    return counter.example;
  }

  private record SeenFunction(ConflictCounter counter) implements UDF5<Long, Long, Integer, Long, Long, Boolean> {
    @Override
    public Boolean call(Long keyHash, Long topicHash, Integer partition, Long offset, Long timestamp) {
      counter.addRecord(keyHash, new Position(topicHash, partition, offset, timestamp));
      return true;
    }
  }

  private record FoundFunction(ConflictCounter counter) implements UDF2<Integer, Long, Boolean> {
    @Override
    public Boolean call(Integer partition, Long offset) {
      counter.addConflict(partition, offset);
      return true;
    }
  }

  private record Position(long topicHash, int partition, long offset, long timestamp)
      implements Serializable {
    boolean isOfSamePartition(Position other) {
      return topicHash == other.topicHash && partition == other.partition;
    }

    boolean contradicts(Position other, boolean byTimestamp) {
      if (!byTimestamp) {
        return !isOfSamePartition(other);
      }
      int byOffset = Long.compare(offset, other.offset);
      return isOfSamePartition(other) && byOffset * Long.compare(timestamp, other.timestamp) < 0;
    }
  }

  /** Accumulates conflicts. Each task has its own copy, which Spark merges into the driver's. */
  private static final class ConflictCounter extends AccumulatorV2<Long, Long> {
    private final boolean byTimestamp;

    /** The newest record of each retained key hash; null if the key has a conflict. */
    private final TreeMap<Long, Position> positionByKeyHash = new TreeMap<>();

    private long tableConflicts;
    private String example = "";

    ConflictCounter(boolean byTimestamp) {
      this.byTimestamp = byTimestamp;
    }

    void addRecord(long keyHash, Position position) {
      if (positionByKeyHash.size() == MAX_KEYS && keyHash > positionByKeyHash.lastKey()) {
        return;
      }
      Position newestPosition = positionByKeyHash.get(keyHash);
      if (newestPosition == null) {
        if (!positionByKeyHash.containsKey(keyHash)) {
          positionByKeyHash.put(keyHash, position);
          removeExcess();
        }
      } else if (position.contradicts(newestPosition, byTimestamp)) {
        positionByKeyHash.put(keyHash, null);
        setExampleIfAbsent(position.partition, position.offset);
      } else if (position.isOfSamePartition(newestPosition)
          && position.offset > newestPosition.offset) {
        positionByKeyHash.put(keyHash, position); // keep the newest for later comparisons
      }
    }

    private void removeExcess() {
      while (positionByKeyHash.size() > MAX_KEYS) {
        positionByKeyHash.pollLastEntry();
      }
    }

    void addConflict(int partition, long offset) {
      tableConflicts++;
      setExampleIfAbsent(partition, offset);
    }

    private void setExampleIfAbsent(int partition, long offset) {
      if (example.isEmpty()) {
        example = "partition " + partition + ", offset " + offset;
      }
    }

    @Override
    public boolean isZero() {
      return positionByKeyHash.isEmpty() && tableConflicts == 0;
    }

    @Override
    public AccumulatorV2<Long, Long> copy() {
      ConflictCounter copy = new ConflictCounter(byTimestamp);
      copy.merge(this);
      return copy;
    }

    @Override
    public void reset() {
      positionByKeyHash.clear();
      tableConflicts = 0;
      example = "";
    }

    @Override
    public void add(Long conflicts) {
      tableConflicts += conflicts;
    }

    @Override
    public void merge(AccumulatorV2<Long, Long> other) {
      ConflictCounter otherCounter = (ConflictCounter) other;
      tableConflicts += otherCounter.tableConflicts;
      if (example.isEmpty()) {
        example = otherCounter.example;
      }
      for (Map.Entry<Long, Position> entry : otherCounter.positionByKeyHash.entrySet()) {
        if (entry.getValue() != null) {
          addRecord(entry.getKey(), entry.getValue());
        } else {
          positionByKeyHash.put(entry.getKey(), null);
          removeExcess();
        }
      }
    }

    @Override
    public Long value() {
      return tableConflicts + positionByKeyHash.values().stream().filter(Objects::isNull).count();
    }
  }
}
