package io.assignorbridge;

/** Offsets of one partition from start (read) to end (not read). */
record OffsetRange(String topic, int partition, long start, long end) {

  boolean isOfPartition(OffsetRange other) {
    return partition == other.partition && topic.equals(other.topic);
  }

  @Override
  public String toString() {
    return topic + "-" + partition + "[" + start + "," + end + ")";
  }
}
