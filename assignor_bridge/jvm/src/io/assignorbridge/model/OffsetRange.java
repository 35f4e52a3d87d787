package io.assignorbridge.model;

/** Offsets of one partition from `start` (inclusive) to `end` (exclusive). */
public record OffsetRange(String topic, int partition, long start, long end) {

  public boolean isOfSamePartition(OffsetRange other) {
    return partition == other.partition && topic.equals(other.topic);
  }

  @Override
  public String toString() {
    return topic + "-" + partition + "[" + start + "," + end + ")";
  }
}
