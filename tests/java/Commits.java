package io.assignorbridge.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.kafka010.JsonUtils;
import org.apache.spark.sql.kafka010.KafkaSourceOffset;

/**
 * Commits to groups as the driver does. Standard input holds one query a line: {@code group}, its
 * {@code kafka} settings, {@code ends}, the offsets of its batches, and {@code errors} of its commits. Each is answered with the
 * metrics at the query's end, and with how many threads were left behind.
 */
public final class Commits {
  private Commits() {}

  public static void main(String[] arguments) throws Exception {
    SparkConf conf = new SparkConf(false);
    conf.contains("spark.app.name"); // loads Spark's settings, which must not find an environment
    SparkEnv.set(
        new SparkEnv("0", null, null, null, null, null, null, null, null, null, null, conf));
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    ObjectMapper json = new ObjectMapper();
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode query = json.readTree(line);
      Map<String, String> kafka = new TreeMap<>();
      query.get("kafka").fields().forEachRemaining(f -> kafka.put(f.getKey(), f.getValue().asText()));
      GroupCommits commits = new GroupCommits(query.get("group").asText(), kafka);
      for (JsonNode end : query.get("ends")) {
        commits.commitCompleted(new KafkaSourceOffset(JsonUtils.partitionOffsets(end.toString())));
      }
      for (JsonNode error : query.path("errors")) {
        commits.countFailure(new TimeoutException(error.asText()));
      }
      long closing = System.nanoTime();
      commits.close();
      long closedMs = (System.nanoTime() - closing) / 1_000_000;
      Map<String, Object> answer = new TreeMap<>(commits.metrics());
      answer.put("threads", ours());
      answer.put("closedMs", closedMs);
      out.println(json.writeValueAsString(answer));
    }
  }

  /** A login that nothing interrupts, as one whose server does not answer. */
  public static final class SlowLogin extends PlainLoginModule {
    @Override
    public boolean login() {
      long until = System.nanoTime() + 14_000_000_000L;
      while (System.nanoTime() < until) {
        LockSupport.parkNanos(until - System.nanoTime());
        Thread.interrupted();
      }
      return super.login();
    }
  }

  /** How many threads there are of commits and of Kafka's client. */
  private static long ours() throws InterruptedException {
    long count = 0;
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread.getName().contains("assignor") || thread.getName().contains("kafka-admin")) {
        thread.join(5_000); // one that has been told to end may not have ended
        count += thread.isAlive() ? 1 : 0;
      }
    }
    return count;
  }
}
