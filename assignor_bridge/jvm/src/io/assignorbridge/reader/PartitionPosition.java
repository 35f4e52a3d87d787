package io.assignorbridge.reader;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/**
 * A consumer's position in one partition. {@link #keptRecords} are records polled beyond the end of
 * a range, for the next batch: all visible records from {@link #keptFrom} to {@link #position}.
 */
final class PartitionPosition {
  /** Value of {@link #bufferedSinceBytes} before the first fetch from the partition. */
  static final long NEVER_FETCHED = Long.MAX_VALUE;

  private static final long UNKNOWN = -1;

  // Heap bytes of the objects around keys and values, measured with Kafka 3.9:
  private static final int RECORD_OVERHEAD_BYTES = 160; // per record
  private static final int HEADER_OVERHEAD_BYTES = 150; // for a record's first header; others have 90
  private static final int SAMPLES_PER_POLL = 8; // at least, of a partition with enough records
  private static final int MAX_AVERAGED_OFFSETS = 2_000;

  final TopicPartition partition;
  long keptFrom = UNKNOWN;
  long position = UNKNOWN;
  List<ConsumerRecord<byte[], byte[]>> keptRecords = List.of();
  long keptBytes; // heap bytes of `keptRecords`
  long lastUse; // the consumer's `useCount` when it last read this partition
  RangeCursor currentRange; // the unfinished range that is being read; null if there is none
  boolean positioned; // whether Kafka's consumer is at `position`

  /** The client's total of received bytes when it last held no records of this partition. */
  long bufferedSinceBytes = NEVER_FETCHED;

  /** Heap bytes per offset, estimated from the last 2,000 offsets; 0 before the first poll. */
  double bytesPerOffset;
  private long averagedOffsets; // weight of `bytesPerOffset`

  PartitionPosition(TopicPartition partition) {
    this.partition = partition;
  }

  /** Returns whether reading can continue at {@code offset} with the kept records. */
  boolean covers(long offset) {
    return keptFrom != UNKNOWN && keptFrom <= offset && offset <= position;
  }

  /** Moves to {@code offset} without kept records; Kafka's consumer has yet to seek. */
  void resetTo(long offset) {
    position = offset;
    positioned = false;
    dropKept();
    keptFrom = offset;
  }

  /** Forgets the position, so that the next range sets it again. */
  void forget() {
    resetTo(UNKNOWN);
  }

  /** Keeps records from {@code offset} on; copies the list, which may be a view of a poll. */
  void keep(long offset, List<ConsumerRecord<byte[], byte[]>> records) {
    keptFrom = offset;
    keptRecords = new ArrayList<>(records);
    keptBytes = estimateHeapBytes(records);
  }

  /** Returns the kept records from {@code offset} on, and removes all kept records. */
  List<ConsumerRecord<byte[], byte[]>> takeKept(long offset) {
    List<ConsumerRecord<byte[], byte[]>> records = keptRecords;
    dropKept();
    keptFrom = offset;
    return records.subList(countBelow(records, offset), records.size());
  }

  /** Drops the kept records. Offsets below the position must then be fetched again. */
  void dropKept() {
    if (!keptRecords.isEmpty()) {
      keptRecords = List.of();
      keptBytes = 0;
      keptFrom = position;
    }
  }

  /** Moves the position past polled records; returns their heap bytes, estimated from a sample. */
  long movePast(List<ConsumerRecord<byte[], byte[]>> records) {
    int step = Math.max(1, records.size() / SAMPLES_PER_POLL);
    long sampledBytes = 0;
    int sampleCount = 0;
    for (int i = 0; i < records.size(); i += step) {
      sampledBytes += estimateHeapBytes(records.get(i));
      sampleCount++;
    }
    long end = records.get(records.size() - 1).offset() + 1;
    long heapBytes = sampledBytes / sampleCount * records.size();
    updateBytesPerOffset(heapBytes, end - position);
    position = end;
    return heapBytes;
  }

  /** Moves the position to {@code offset}, past markers and compacted offsets. */
  void moveTo(long offset) {
    updateBytesPerOffset(0, offset - position);
    position = offset;
  }

  private void updateBytesPerOffset(long newBytes, long newOffsets) {
    double oldBytes = bytesPerOffset * averagedOffsets;
    bytesPerOffset = Math.max(1, (oldBytes + newBytes) / Math.max(1, averagedOffsets + newOffsets));
    averagedOffsets = Math.min(MAX_AVERAGED_OFFSETS, averagedOffsets + newOffsets);
  }

  /** Counts the records below {@code offset}; the records are sorted by offset. */
  static int countBelow(List<ConsumerRecord<byte[], byte[]>> records, long offset) {
    int count = records.size();
    while (count > 0 && records.get(count - 1).offset() >= offset) {
      count--;
    }
    return count;
  }

  static long estimateHeapBytes(List<ConsumerRecord<byte[], byte[]>> records) {
    long bytes = 0;
    for (ConsumerRecord<byte[], byte[]> record : records) {
      bytes += estimateHeapBytes(record);
    }
    return bytes;
  }

  /** Estimates a record's heap bytes; reads its headers, as unread ones retain the response. */
  private static long estimateHeapBytes(ConsumerRecord<byte[], byte[]> record) {
    long bytes = serializedBytes(record) + RECORD_OVERHEAD_BYTES;
    for (Header header : record.headers()) {
      byte[] value = header.value();
      bytes += header.key().length() + (value == null ? 0 : value.length) + HEADER_OVERHEAD_BYTES;
    }
    return bytes;
  }

  /** Returns the size of key and value in bytes. Kafka's -1 for null counts as 0. */
  static int serializedBytes(ConsumerRecord<byte[], byte[]> record) {
    return Math.max(record.serializedKeySize(), 0) + Math.max(record.serializedValueSize(), 0);
  }
}
