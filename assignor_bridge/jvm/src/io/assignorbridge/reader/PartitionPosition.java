package io.assignorbridge.reader;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/**
 * How far a consumer has read one partition. {@link #kept} holds every visible record of the offsets
 * [{@link #from}, {@link #position}): what was polled beyond a range's end, for the next batch.
 */
final class PartitionPosition {
  private static final long UNKNOWN = -1;

  // The objects around a record's and a header's bytes, as measured with Kafka 3.9 on a small heap.
  private static final int RECORD_OVERHEAD_BYTES = 160;
  private static final int HEADER_OVERHEAD_BYTES = 150; // of the first; each further one takes 90

  final TopicPartition partition;
  long from = UNKNOWN;
  long position = UNKNOWN;
  List<ConsumerRecord<byte[], byte[]>> kept = List.of();
  long keptBytes;
  long lastUse;

  /** The range that is being read, null when the partition is paused. */
  RangeCursor reading;

  /** Whether Kafka's consumer stands at {@link #position}. */
  boolean positioned;

  /** All that Kafka's consumer holds of it came after so many bytes of the consumer's traffic. */
  long mark;

  PartitionPosition(TopicPartition partition) {
    this.partition = partition;
  }

  /** Whether reading can go on at {@code offset} with what is kept and the position. */
  boolean covers(long offset) {
    return from != UNKNOWN && from <= offset && offset <= position;
  }

  /** Moves to {@code offset} with nothing kept; Kafka's consumer has yet to seek. */
  void resetTo(long offset) {
    position = offset;
    positioned = false;
    dropKept();
    from = offset;
  }

  /** Forgets the position: it is to be looked up anew. */
  void lose() {
    resetTo(UNKNOWN);
  }

  /** Keeps records from {@code offset} on; the list is copied, for it may be a view of a poll. */
  void keep(long offset, List<ConsumerRecord<byte[], byte[]>> records) {
    from = offset;
    kept = new ArrayList<>(records);
    keptBytes = bytesOf(records);
  }

  /** Hands the kept records of {@code offset} and above over. */
  List<ConsumerRecord<byte[], byte[]>> takeKept(long offset) {
    List<ConsumerRecord<byte[], byte[]>> all = kept;
    dropKept();
    from = offset;
    return all.subList(countBelow(all, offset), all.size());
  }

  /** Frees the kept records; the offsets up to the position would have to be fetched again. */
  void dropKept() {
    if (!kept.isEmpty()) {
      kept = List.of();
      keptBytes = 0;
      from = position;
    }
  }

  /** How many of the records, which are sorted by offset, come before {@code offset}. */
  static int countBelow(List<ConsumerRecord<byte[], byte[]>> records, long offset) {
    int count = records.size();
    while (count > 0 && records.get(count - 1).offset() >= offset) {
      count--;
    }
    return count;
  }

  /**
   * Heap that kept records take. Headers are asked for on purpose: until then they are views of the
   * whole answer of the broker, and would keep it.
   */
  private static long bytesOf(List<ConsumerRecord<byte[], byte[]>> records) {
    long bytes = 0;
    for (ConsumerRecord<byte[], byte[]> one : records) {
      bytes += size(one) + RECORD_OVERHEAD_BYTES;
      for (Header header : one.headers()) {
        byte[] value = header.value();
        bytes += header.key().length() + (value == null ? 0 : value.length) + HEADER_OVERHEAD_BYTES;
      }
    }
    return bytes;
  }

  /** Bytes of key and value; Kafka says -1 for a null. */
  static int size(ConsumerRecord<byte[], byte[]> one) {
    return Math.max(one.serializedKeySize(), 0) + Math.max(one.serializedValueSize(), 0);
  }
}
