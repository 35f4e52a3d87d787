package io.assignorbridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has the end offsets of completed batches committed to a consumer group (`assignor.commitGroup`).
 * A Python process and a thread of their own do it: no plan ever waits for a commit, and the secrets
 * among the stream's `kafka.*` settings go to that process only, over its standard input. Failures
 * are counted and told once; the query neither stops nor waits, but for its very last commit.
 */
final class GroupCommits implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(GroupCommits.class);

  /** Less than the 10 s after which Spark tells of an idle query, so that none of these is missed. */
  private static final long STEADY_NANOS = 5_000_000_000L;

  private static final long ANSWER_MS = 60_000;
  private static final long LAST_COMMIT_MS = 10_000;
  private static final int MOST_WARNINGS = 50;
  private static final Pattern BATCH = Pattern.compile("of batch \\d+ ");

  /** The end of a batch: its number (less than 0 when this run does not know it), its offsets. */
  private record Completed(long batch, String offsets) {}

  private final String group;
  private final Interpreter interpreter;
  private final Map<String, String> kafka;
  private final LongSupplier lastCommittedBatch;
  private final LatestOnlyExecutor<Completed> thread = new LatestOnlyExecutor<>("assignor-commits", this::commit);

  // On the stream's thread.
  private String lastOffsets;
  private long lastNanos;

  // On the thread of commits.
  private PlannerProcess process;
  private boolean kafkaIsKnown;
  private boolean isBroken;
  private long brokenNanos;
  private long committedBefore;
  private long failedBefore;
  private final Set<String> told = new HashSet<>();

  private volatile long committed;
  private volatile long failed;

  /**
   * @param kafka the stream's own settings of its Kafka client, without the prefix
   * @param lastCommittedBatch looks the last completed batch up where this run did not see it
   */
  GroupCommits(
      String group,
      Interpreter interpreter,
      Map<String, String> kafka,
      LongSupplier lastCommittedBatch) {
    this.group = group;
    this.interpreter = interpreter;
    this.kafka = kafka;
    this.lastCommittedBatch = lastCommittedBatch;
  }

  /** Everything before these offsets has been written; called for idle triggers too. */
  void completed(long batch, String offsets) {
    long now = System.nanoTime();
    if (!offsets.equals(lastOffsets) || now - lastNanos >= STEADY_NANOS) {
      lastOffsets = offsets;
      lastNanos = now;
      thread.give(new Completed(batch, offsets));
    }
  }

  Map<String, String> metrics() {
    return new TreeMap<>(
        Map.of(
            "assignor.commitGroup", group,
            "assignor.commits", Long.toString(committed),
            "assignor.commitFailures", Long.toString(failed)));
  }

  /** Waits for the last commit, then ends the process. */
  @Override
  public void close() {
    if (lastOffsets != null) {
      thread.run(() -> exchange(PlanJson.flush(), LAST_COMMIT_MS));
    }
    thread.run(this::endProcess);
    thread.finish(LAST_COMMIT_MS);
  }

  private void commit(Completed end) {
    if (process == null && isBroken && System.nanoTime() - brokenNanos < STEADY_NANOS) {
      failed = ++failedBefore; // an interpreter that does not work is not started for each batch
      return;
    }
    try {
      if (process != null && !process.isAlive()) {
        endProcess();
      }
      if (process == null) {
        process = new PlannerProcess(interpreter);
        kafkaIsKnown = false;
      }
    } catch (PlannerException e) {
      broken(e);
      return;
    }
    long batch = end.batch() >= 0 ? end.batch() : lastCommittedBatch.getAsLong();
    String line = PlanJson.commit(group, batch, kafkaIsKnown ? null : kafka, end.offsets());
    kafkaIsKnown |= exchange(line, ANSWER_MS);
  }

  /** Whether the line was taken. */
  private boolean exchange(String line, long timeoutMs) {
    if (process == null) {
      return false;
    }
    String answer;
    try {
      answer = process.ask(line, timeoutMs);
    } catch (PlannerException e) {
      broken(e);
      return false;
    } catch (InterruptedException e) {
      endProcess(); // the time for the last commit is over
      Thread.currentThread().interrupt();
      return false;
    }
    try {
      note(PlanJson.answer(answer).path("commits"));
      return true;
    } catch (PlannerException e) {
      failed = ++failedBefore;
      tell(e.getMessage());
      return false;
    }
  }

  private void note(JsonNode commits) {
    committed = committedBefore + commits.path("committed").asLong();
    failed = failedBefore + commits.path("failed").asLong();
    if (commits.path("error").isTextual()) {
      tell(commits.path("error").textValue());
    }
  }

  private void broken(PlannerException e) {
    isBroken = true;
    brokenNanos = System.nanoTime();
    endProcess();
    failed = ++failedBefore;
    tell(e.getMessage());
  }

  private void endProcess() {
    if (process != null) {
      process.close();
      process = null;
      committedBefore = committed; // a new process counts from 0
      failedBefore = failed;
    }
  }

  private void tell(String error) {
    // The same refusal of a later batch is no news.
    if (told.size() < MOST_WARNINGS && told.add(BATCH.matcher(error).replaceFirst(""))) {
      LOG.warn(
          "assignor-bridge could not commit to group '{}' (the query goes on): {}", group, error);
    }
  }
}
