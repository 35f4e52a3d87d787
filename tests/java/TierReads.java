package io.assignorbridge.reader;

import static io.assignorbridge.reader.FakeKafka.check;

import io.assignorbridge.reader.RangeCursor.Chunk;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import scala.Option;

/**
 * A topic's partitions read by one consumer, from 0 on, once for each size of a partition's fetch.
 * Arguments: address, topic, partitions, records of each, then the sizes; `-` is the reader's own.
 * Prints a line for each: the size, the brokers' answers, milliseconds.
 */
public final class TierReads {
  private static final long BUFFER = 2L << 20;

  private TierReads() {}

  public static void main(String[] arguments) {
    SparkConf conf = new SparkConf(false);
    conf.contains("spark.app.name"); // loads Spark's settings, which must not find an environment
    SparkEnv.set(
        new SparkEnv("0", null, null, null, null, null, null, null, null, null, null, conf));
    int partitions = Integer.parseInt(arguments[2]);
    long until = Long.parseLong(arguments[3]);
    for (int i = 4; i < arguments.length; i++) {
      Map<String, Object> params = new HashMap<>();
      params.put("bootstrap.servers", arguments[0]);
      params.put("auto.offset.reset", "none");
      params.put("enable.auto.commit", "false");
      params.put("key.deserializer", ByteArrayDeserializer.class.getName());
      params.put("value.deserializer", ByteArrayDeserializer.class.getName());
      if (!arguments[i].equals("-")) {
        params.put("max.partition.fetch.bytes", arguments[i]);
      }
      long began = System.nanoTime();
      long answers = read(params, arguments[1], partitions, until);
      System.out.println(arguments[i] + " " + answers + " " + (System.nanoTime() - began) / 1_000_000);
    }
    System.exit(0);
  }

  /** Reads all once; how many answers that took. */
  private static long read(Map<String, Object> params, String topic, int partitions, long until) {
    List<Metric> totals = new ArrayList<>();
    PooledConsumer consumer =
        new PooledConsumer("s", 0, params, BUFFER, partitions, given -> counted(given, totals));
    List<RangeCursor> ranges = new ArrayList<>();
    for (int i = 0; i < partitions; i++) {
      KafkaOffsetRange range =
          new KafkaOffsetRange(new TopicPartition(topic, i), 0, until, Option.empty());
      ranges.add(
          new RangeCursor(i, new KafkaBatchInputPartition(range, Map.of(), 1_000, true, false)));
    }
    consumer.beginUse();
    long records = 0;
    List<Chunk> chunks = new ArrayList<>();
    consumer.begin(ranges, 0, chunks);
    while (consumer.isReading()) {
      consumer.poll(Duration.ofSeconds(10), 0, chunks);
      consumer.fitBuffers(0);
      records += chunks.stream().mapToLong(chunk -> chunk.records().size()).sum();
      chunks.clear();
    }
    check(records == partitions * until, records + " records");
    long answers = totals.stream().mapToLong(BoundedConsumer::total).sum();
    consumer.close();
    return answers;
  }

  private static Consumer<byte[], byte[]> counted(Map<String, Object> params, List<Metric> totals) {
    KafkaConsumer<byte[], byte[]> made = new KafkaConsumer<>(params);
    made.metrics().values().stream()
        .filter(one -> one.metricName().name().equals("fetch-total"))
        .filter(one -> !one.metricName().tags().containsKey("topic"))
        .forEach(totals::add);
    return made;
  }
}
