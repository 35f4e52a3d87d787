import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer of the JVM, with the events and settings of tests/support/group_member.py. */
public final class GroupMember implements ConsumerRebalanceListener {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final boolean reads;
  private final Duration pollTimeout;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private static volatile boolean ended;

  private GroupMember(JsonNode settings) {
    reads = settings.path("reads").asBoolean();
    pollTimeout = Duration.ofMillis(settings.path("poll_ms").asInt(100));
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", settings.get("bootstrap").asText());
    config.put("group.id", settings.get("group").asText());
    config.put("client.id", settings.get("name").asText());
    List<String> strategies = new ArrayList<>();
    settings.get("strategies").forEach(s -> strategies.add(s.asText()));
    if (strategies.isEmpty()) { // KIP-848: the broker assigns, and has the settings of sessions
      config.put("group.protocol", "consumer");
    } else {
      config.put("partition.assignment.strategy", strategies);
      config.put("session.timeout.ms", settings.get("session_ms").asText());
      config.put("heartbeat.interval.ms", "200");
    }
    config.put("auto.offset.reset", "earliest");
    config.put("enable.auto.commit", "false");
    config.put("metadata.max.age.ms", settings.path("metadata_ms").asText("1000"));
    config.put("max.poll.records", "20");
    consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    List<String> topics = new ArrayList<>();
    settings.get("topics").forEach(t -> topics.add(t.asText()));
    consumer.subscribe(topics, this);
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
    if (reads && !revoked.isEmpty()) {
      consumer.commitSync();
    }
    report("revoked", revoked, List.of());
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
    if (!reads) {
      consumer.pause(assigned);
    }
    report("assigned", assigned, List.of());
  }

  @Override
  public void onPartitionsLost(Collection<TopicPartition> lost) {
    report("lost", lost, List.of());
  }

  private static void report(String event, Collection<TopicPartition> partitions, List<Long> offsets) {
    ObjectNode line = JSON.createObjectNode().put("event", event).put("at", System.currentTimeMillis() / 1000.0);
    partitions.stream().map(TopicPartition::toString).sorted().forEach(line.withArray("/partitions")::add);
    offsets.forEach(line.withArray("/offsets")::add);
    System.out.println(line);
    System.out.flush();
  }

  private void run() throws InterruptedException {
    while (!ended) {
      var batch = consumer.poll(pollTimeout);
      for (TopicPartition partition : batch.partitions()) {
        report("read", List.of(partition), batch.records(partition).stream().map(ConsumerRecord::offset).toList());
      }
      if (!batch.isEmpty()) {
        try {
          consumer.commitSync();
        } catch (KafkaException error) { // in a rebalance: the listener commits
          report("uncommitted", List.of(), List.of());
        }
        Thread.sleep(20);
      }
    }
    report("closing", List.of(), List.of());
    consumer.close();
    report("closed", List.of(), List.of());
  }

  public static void main(String[] args) throws Exception {
    Thread end = new Thread(() -> {
      try {
        System.in.readAllBytes();
      } catch (IOException error) {
        // the test has ended
      }
      ended = true;
    });
    end.setDaemon(true);
    end.start();
    new GroupMember(JSON.readTree(args[0])).run();
  }
}
