package io.assignorbridge.kafka;

import io.assignorbridge.model.LatestOnlyExecutor;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Commits the end offsets of completed batches to a consumer group (`assignor.commitGroup`). A
 * separate thread sends one commit at a time and skips all but the newest waiting commit. Failures
 * are counted and logged once per reason. They never stop the query, which waits only for its last
 * commit. A group with live members rejects such commits, so their offsets are safe.
 */
public final class GroupCommits implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(GroupCommits.class);
  private static final long REPEAT_NANOS = 5_000_000_000L; // Spark reports idle queries every 10 s
  private static final int COMMIT_TIMEOUT_MS = 8_000;
  private static final int FINISH_TIMEOUT_MS = 10_000; // longer than a commit takes
  private static final int MAX_WARNINGS = 50;

  private final String group;
  private final KafkaAdmin admin;
  private final LatestOnlyExecutor<Offset> committer =
      new LatestOnlyExecutor<>("assignor-commits", this::commit);
  private final Set<String> warnedReasons = new HashSet<>(); // used on the commit thread only
  private volatile long commitCount;
  private volatile long failureCount;
  private Offset lastEnd; // like lastSubmitNanos, used on the stream's thread only
  private long lastSubmitNanos;

  public GroupCommits(String group, Map<String, String> kafkaSettings) {
    this.group = group;
    admin = new KafkaAdmin(kafkaSettings);
  }

  /** Submits the end offsets of completed batches; repeats them while idle, so none expires. */
  public void commitCompleted(Offset end) {
    long nowNanos = System.nanoTime();
    if (!end.equals(lastEnd) || nowNanos - lastSubmitNanos >= REPEAT_NANOS) {
      lastEnd = end;
      lastSubmitNanos = nowNanos;
      committer.submit(end);
    }
  }

  public Map<String, String> metrics() {
    return Map.of(
        "assignor.commitGroup", group,
        "assignor.commits", Long.toString(commitCount),
        "assignor.commitFailures", Long.toString(failureCount));
  }

  /** Waits for the last commit, at most ten seconds. */
  @Override
  public void close() {
    committer.finish(FINISH_TIMEOUT_MS);
    admin.close();
  }

  private void commit(Offset end) {
    try {
      Map<TopicPartition, OffsetAndMetadata> commitByPartition = new HashMap<>();
      SourceOffsets.of(end)
          .forEach((p, offset) -> commitByPartition.put(p, new OffsetAndMetadata(offset)));
      var options = new AlterConsumerGroupOffsetsOptions().timeoutMs(COMMIT_TIMEOUT_MS);
      admin.open().alterConsumerGroupOffsets(group, commitByPartition, options).all().get();
      commitCount++;
    } catch (ExecutionException e) {
      countFailure(e.getCause());
    } catch (InterruptedException e) {
      countFailure(new TimeoutException("no answer before the query ended"));
    } catch (RuntimeException | LinkageError e) {
      countFailure(e);
    }
  }

  void countFailure(Throwable error) {
    failureCount++;
    String reason = admin.describe(error) + findAdvice(Errors.forException(error));
    String maskedReason = reason.replaceAll("\\d+", "#"); // mask times and attempts
    if (warnedReasons.size() < MAX_WARNINGS && warnedReasons.add(maskedReason)) {
      LOG.warn(
          "assignor-bridge could not commit to group '{}' (the query continues): {}", group, reason);
    }
  }

  private static String findAdvice(Errors error) {
    return switch (error) {
      case UNKNOWN_MEMBER_ID ->
          " (the group has live members: commit to a group without subscribed consumers)";
      case GROUP_AUTHORIZATION_FAILED -> " (the query's user needs Read on this group)";
      case TOPIC_AUTHORIZATION_FAILED -> " (the query's user needs Read on this topic)";
      case UNKNOWN_TOPIC_OR_PARTITION -> " (the topic or the partition does not exist)";
      default -> "";
    };
  }
}
