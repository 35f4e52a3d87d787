package io.assignorbridge.records;

import java.io.Serializable;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.api.java.UDF5;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.AccumulatorV2;

/**
 * Counts the records of an upsert whose order Kafka does not define, while the merge reads them.
 *
 * <p>It registers two SQL functions that return true. {@code NAME_seen} gets each record of a batch and
 * compares it with the others of its key. To bound memory, only the keys with the smallest {@value
 * #MOST_KEYS} hashes are compared: all keys of a small batch, a random sample of a large one. {@code
 * NAME_found} gets each record that the merge itself has compared with the table's row.
 */
public final class OrderConflicts {
  private static final int MOST_KEYS = 1024;

  private final Tally tally;

  /**
   * With `byTimestamp`, two records of a key conflict if they are of one partition and their timestamps
   * contradict their offsets; otherwise if they are of different partitions.
   */
  public OrderConflicts(SparkSession session, String name, boolean byTimestamp) {
    tally = new Tally(byTimestamp);
    session.sparkContext().register(tally);
    session.udf().register(name + "_seen", new Seen(tally), DataTypes.BooleanType);
    session.udf().register(name + "_found", new Found(tally), DataTypes.BooleanType);
  }

  /** Returns the number of conflicts since the last call. */
  public long take() {
    long conflicts = tally.value();
    tally.reset();
    return conflicts;
  }

  /** Returns "partition P, offset O" of one conflicting record, for a message; call before `take`. */
  public String example() {
    return tally.example;
  }

  /** The arguments are hashes of key and topic, partition, offset, and timestamp. */
  private record Seen(Tally tally) implements UDF5<Long, Long, Integer, Long, Long, Boolean> {
    @Override
    public Boolean call(Long key, Long topic, Integer partition, Long offset, Long timestamp) {
      tally.see(key, new Place(topic, partition, offset, timestamp));
      return true;
    }
  }

  private record Found(Tally tally) implements UDF2<Integer, Long, Boolean> {
    @Override
    public Boolean call(Integer partition, Long offset) {
      tally.found(partition, offset);
      return true;
    }
  }

  /** Where and when the record of a key stands. */
  private record Place(long topic, int partition, long offset, long timestamp)
      implements Serializable {
    boolean isOfPartition(Place other) {
      return topic == other.topic && partition == other.partition;
    }

    boolean contradicts(Place other, boolean byTimestamp) {
      if (!byTimestamp) {
        return !isOfPartition(other);
      }
      int byOffset = Long.compare(offset, other.offset);
      return isOfPartition(other) && byOffset * Long.compare(timestamp, other.timestamp) < 0;
    }
  }

  /** A task has its own, which Spark merges into the driver's. */
  private static final class Tally extends AccumulatorV2<Long, Long> {
    private final boolean byTimestamp;

    /** One place for each of the smallest hashes of keys; null for a key that is in conflict. */
    private final TreeMap<Long, Place> places = new TreeMap<>();

    private long found;
    private String example = "";

    Tally(boolean byTimestamp) {
      this.byTimestamp = byTimestamp;
    }

    void see(long key, Place place) {
      if (places.size() == MOST_KEYS && key > places.lastKey()) {
        return;
      }
      Place before = places.get(key);
      if (before == null) {
        if (!places.containsKey(key)) {
          places.put(key, place);
          drop();
        }
      } else if (place.contradicts(before, byTimestamp)) {
        places.put(key, null);
        note(place.partition, place.offset);
      } else if (place.isOfPartition(before) && place.offset > before.offset) {
        places.put(key, place); // the newest by both, so that each later one is compared with it
      }
    }

    private void drop() {
      while (places.size() > MOST_KEYS) {
        places.pollLastEntry();
      }
    }

    void found(int partition, long offset) {
      found++;
      note(partition, offset);
    }

    private void note(int partition, long offset) {
      if (example.isEmpty()) {
        example = "partition " + partition + ", offset " + offset;
      }
    }

    @Override
    public boolean isZero() {
      return places.isEmpty() && found == 0;
    }

    @Override
    public AccumulatorV2<Long, Long> copy() {
      Tally copy = new Tally(byTimestamp);
      copy.merge(this);
      return copy;
    }

    @Override
    public void reset() {
      places.clear();
      found = 0;
      example = "";
    }

    @Override
    public void add(Long conflicts) {
      found += conflicts;
    }

    @Override
    public void merge(AccumulatorV2<Long, Long> other) {
      Tally tally = (Tally) other;
      found += tally.found;
      if (example.isEmpty()) {
        example = tally.example;
      }
      for (Map.Entry<Long, Place> each : tally.places.entrySet()) {
        if (each.getValue() != null) {
          see(each.getKey(), each.getValue());
        } else {
          places.put(each.getKey(), null);
          drop();
        }
      }
    }

    @Override
    public Long value() {
      return found + places.values().stream().filter(place -> place == null).count();
    }
  }
}
