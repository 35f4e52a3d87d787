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
  /** Value of {@link #mark} of a partition of which Kafka's consumer has fetched nothing. */
  static final long NEVER_FETCHED = Long.MAX_VALUE;

  private static final long UNKNOWN = -1;

  // The objects around a record's and a header's bytes, as measured with Kafka 3.9 on a small heap.
  private static final int RECORD_OVERHEAD_BYTES = 160;
  private static final int HEADER_OVERHEAD_BYTES = 150; // of the first; each further one takes 90

  private static final int SAMPLES_PER_POLL = 8;
  private static final int OFFSETS_TO_REMEMBER = 2_000;

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
  long mark = NEVER_FETCHED;

  /** Heap per offset of the last few thousand offsets, by samples; 0 before the first. */
  double bytesPerOffset;

  private long rememberedOffsets;

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
    keptBytes = heapBytes(records);
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

  /** Moves the position behind polled records; returns the heap that they take, by a sample. */
  long moveBehind(List<ConsumerRecord<byte[], byte[]>> records) {
    int step = Math.max(1, records.size() / SAMPLES_PER_POLL);
    long sampledBytes = 0;
    int samples = 0;
    for (int i = 0; i < records.size(); i += step) {
      sampledBytes += heapBytes(records.get(i));
      samples++;
    }
    long end = records.get(records.size() - 1).offset() + 1;
    long bytes = sampledBytes / samples * records.size();
    learn(bytes, end - position);
    position = end;
    return bytes;
  }

  /** Moves the position to {@code offset}, over markers and compacted offsets. */
  void moveTo(long offset) {
    learn(0, offset - position);
    position = offset;
  }

  private void learn(long bytes, long offsets) {
    double before = bytesPerOffset * rememberedOffsets;
    bytesPerOffset = Math.max(1, (before + bytes) / Math.max(1, rememberedOffsets + offsets));
    rememberedOffsets = Math.min(OFFSETS_TO_REMEMBER, rememberedOffsets + offsets);
  }

  /** How many of the records, which are sorted by offset, come before {@code offset}. */
  static int countBelow(List<ConsumerRecord<byte[], byte[]>> records, long offset) {
    int count = records.size();
    while (count > 0 && records.get(count - 1).offset() >= offset) {
      count--;
    }
    return count;
  }

  /** Heap that records take which wait in memory. */
  static long heapBytes(List<ConsumerRecord<byte[], byte[]>> records) {
    long bytes = 0;
    for (ConsumerRecord<byte[], byte[]> one : records) {
      bytes += heapBytes(one);
    }
    return bytes;
  }

  /**
   * Heap that a record takes. Reading its headers copies them: until then they are views of the
   * broker's whole response, and would keep it in memory.
   */
  private static long heapBytes(ConsumerRecord<byte[], byte[]> record) {
    long bytes = size(record) + RECORD_OVERHEAD_BYTES;
    for (Header header : record.headers()) {
      byte[] value = header.value();
      bytes += header.key().length() + (value == null ? 0 : value.length) + HEADER_OVERHEAD_BYTES;
    }
    return bytes;
  }

  /** Bytes of key and value; Kafka says -1 for a null. */
  static int size(ConsumerRecord<byte[], byte[]> one) {
    return Math.max(one.serializedKeySize(), 0) + Math.max(one.serializedValueSize(), 0);
  }
}
