package io.assignorbridge.reader;

import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Consecutive records of one range, polled or kept, ready to be handed to Spark. */
record Chunk(RangeCursor cursor, List<ConsumerRecord<byte[], byte[]>> records) {}
