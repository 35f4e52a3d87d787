package io.assignorbridge;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads partition 0 of a topic from begin to end, again and again, and prints records per second.
 * The first two runs warm up and are not printed. Arguments: brokers, topic, runs, settings.
 */
public final class BareConsumer {
  private static final int WARM_UP = 2;

  public static void main(String[] arguments) {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", arguments[0]);
    settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
    settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
    for (String setting : List.of(arguments).subList(3, arguments.length)) {
      settings.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
    }
    TopicPartition partition = new TopicPartition(arguments[1], 0);
    for (int run = -WARM_UP; run < Integer.parseInt(arguments[2]); run++) {
      try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
        consumer.assign(List.of(partition));
        long end = consumer.endOffsets(List.of(partition)).get(partition);
        consumer.seekToBeginning(List.of(partition));
        long started = System.nanoTime();
        long count = 0;
        while (consumer.position(partition) < end) {
          count += consumer.poll(Duration.ofSeconds(1)).count();
        }
        if (run >= 0) {
          System.out.println(count / ((System.nanoTime() - started) / 1e9));
        }
      }
    }
  }
}
