package io.assignorbridge;

import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.kafka010.KafkaSourceOffset;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Commits the end offsets of completed batches to a consumer group (`assignor.commitGroup`). A thread
 * of its own sends one commit at a time, and only the newest of those that wait. A failure is counted
 * and logged once a reason; the query neither stops nor waits, but for its very last commit. A group
 * with live members refuses commits without a member, so nothing is taken from a real consumer.
 */
final class GroupCommits implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(GroupCommits.class);

  private static final long REPEAT_NANOS = 5_000_000_000L; // Spark reports an idle query each 10 s
  private static final int COMMIT_LIMIT_MS = 10_000;
  private static final int MOST_WARNINGS = 50;
  private static final int MOST_OF_ERROR = 500; // Kafka names all partitions

  private final String group;
  private final Map<String, Object> kafka;
  private final LatestOnlyExecutor<Offset> newest =
      new LatestOnlyExecutor<>("assignor-commits", this::commit);
  private final Set<String> warnings = new HashSet<>(); // on the thread of commits
  private volatile long committed;
  private volatile long failed;
  private Offset lastEnd; // used on the stream's thread, as the next
  private long lastNanos;
  private final AtomicReference<Admin> admin = new AtomicReference<>();
  private volatile boolean ended;
  private SecuredParams params; // of the client; on the thread of commits

  /** `kafka` holds the stream's own settings of its Kafka client, without the prefix. */
  GroupCommits(String group, Map<String, String> kafka) {
    this.group = group;
    this.kafka = new HashMap<>(kafka);
  }

  /** Everything before these offsets has been written; called for idle triggers too. */
  void completed(Offset end) {
    long now = System.nanoTime();
    if (!end.equals(lastEnd) || now - lastNanos >= REPEAT_NANOS) { // again, lest they expire
      lastEnd = end;
      lastNanos = now;
      newest.give(end);
    }
  }

  Map<String, String> metrics() {
    return Map.of(
        "assignor.commitGroup", group,
        "assignor.commits", Long.toString(committed),
        "assignor.commitFailures", Long.toString(failed));
  }

  /** Waits for the last commit, at most as long as one may take. */
  @Override
  public void close() {
    newest.finish(COMMIT_LIMIT_MS);
    ended = true;
    closeAdmin();
  }

  private void commit(Offset end) {
    try {
      Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
      CollectionConverters.asJava(KafkaSourceOffset.apply(end).partitionToOffsets())
          .forEach((p, offset) -> offsets.put(p, new OffsetAndMetadata((Long) offset)));
      var limit = new AlterConsumerGroupOffsetsOptions().timeoutMs(COMMIT_LIMIT_MS);
      openAdmin().alterConsumerGroupOffsets(group, offsets, limit).all().get();
      committed++;
    } catch (ExecutionException e) {
      fail(e.getCause());
    } catch (InterruptedException e) {
      fail(new TimeoutException("no answer before the query ended"));
    } catch (RuntimeException | LinkageError e) {
      fail(e);
    }
  }

  /** The client; another one when Spark has renewed its delegation token. A login may take long. */
  private Admin openAdmin() throws InterruptedException {
    Admin open = admin.get();
    if (open == null || params.isOutdated()) {
      closeAdmin();
      params = new SecuredParams(kafka);
      open = Admin.create(params.params());
      admin.set(open);
    }
    if (ended) { // meanwhile: who closed the client may have seen none
      closeAdmin();
      throw new InterruptedException();
    }
    return open;
  }

  private void closeAdmin() {
    Admin open = admin.getAndSet(null);
    if (open != null) {
      open.close(Duration.ofMillis(1)); // with 0 it waits for its thread, which may look names up
    }
  }

  void fail(Throwable error) {
    failed++;
    String why = error.toString();
    for (Throwable e = error.getCause(); e != null; e = e.getCause()) {
      why += ": " + e;
    }
    why = (params == null ? why : params.redact(why)).replaceAll("\\s+", " ");
    why = PlannerException.shortened(why, MOST_OF_ERROR) + advice(Errors.forException(error));
    String reason = why.replaceAll("\\d+", "#"); // Kafka tells when it gave up, and after how many tries
    if (warnings.size() < MOST_WARNINGS && warnings.add(reason)) {
      LOG.warn(
          "assignor-bridge could not commit to group '{}' (the query continues): {}", group, why);
    }
  }

  private static String advice(Errors error) {
    return switch (error) {
      case UNKNOWN_MEMBER_ID ->
          " (the group has live members: commit to a group that nobody subscribes with)";
      case GROUP_AUTHORIZATION_FAILED -> " (the user of the query needs Read on this group)";
      case TOPIC_AUTHORIZATION_FAILED -> " (the user of the query needs Read on this topic)";
      case UNKNOWN_TOPIC_OR_PARTITION -> " (the topic or the partition is not there)";
      default -> "";
    };
  }
}
