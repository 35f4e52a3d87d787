package io.assignorbridge.worker;

import io.assignorbridge.model.LatestOnlyExecutor;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.settings.Interpreter;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;

/**
 * The planner's Python process, which handles one request line at a time. It ends when its standard
 * input closes, so it cannot outlive this JVM. If {@link #sendRequest} gets no valid answer,
 * it closes this process, so that a late answer cannot be mistaken for the next one.
 */
final class PlannerProcess implements AutoCloseable {
  private static final int MAX_STDERR_CHARS = 4000;
  private static final long LATE_ANSWER_TIMEOUT_MS = 1000;
  private static final Pattern ANSWER_NUMBER = Pattern.compile("\\d+ ");
  private static final ThreadFactory DAEMON_THREADS =
      LatestOnlyExecutor.createDaemonFactory("assignor-planner-io");

  private final String python;
  private final Process process;
  private final BufferedWriter requestWriter;
  private final BufferedReader answerReader;
  private final StringBuilder stderr = new StringBuilder();
  private final Thread stderrReader = DAEMON_THREADS.newThread(this::collectStderr);
  private final ExecutorService io = Executors.newSingleThreadExecutor(DAEMON_THREADS);
  private long requestCount;
  private volatile boolean isClosed;

  PlannerProcess(Interpreter interpreter) throws PlannerException {
    python = interpreter.command();
    try {
      process = interpreter.prepareWorker().start();
    } catch (IOException e) {
      throw new PlannerException(
          "the planner's interpreter '" + python + "' could not be started (" + e.getMessage()
              + "): set spark.assignor.python to a Python that has assignor-bridge installed",
          e);
    }
    requestWriter = process.outputWriter(StandardCharsets.UTF_8);
    answerReader = process.inputReader(StandardCharsets.UTF_8);
    stderrReader.start();
  }

  /** Sends a stream's request and returns the answer; fails after the time limit. */
  String sendRequest(int streamNumber, String request, long timeoutMs)
      throws PlannerException, InterruptedException {
    long requestNumber = ++requestCount; // the answer begins with it, too
    Future<String> answerFuture =
        io.submit(() -> exchange(requestNumber, streamNumber + " " + request));
    boolean isInSync = false;
    try {
      String line = answerFuture.get(timeoutMs, TimeUnit.MILLISECONDS);
      if (line == null) {
        throw new PlannerException("the planner process ended without an answer" + describeEnd());
      }
      String prefix = requestNumber + " ";
      if (!line.startsWith(prefix)) {
        throw new PlannerException(
            "the planner answered another request: " + PlannerException.shorten(line, 200));
      }
      isInSync = true;
      return line.substring(prefix.length());
    } catch (TimeoutException e) {
      throw new PlannerException(
          "the planner did not answer within " + timeoutMs
              + " ms (limit: assignor.planTimeoutMs, or 60000 ms while it starts)", e);
    } catch (ExecutionException e) {
      throw new PlannerException(
          "the connection to the planner process broke" + describeEnd(), e.getCause());
    } catch (InterruptedException e) { // the query is being stopped; other streams continue
      isInSync = awaitLateAnswer(answerFuture);
      throw e;
    } finally {
      if (!isInSync) {
        close();
      }
    }
  }

  boolean isAlive() {
    return !isClosed && process.isAlive();
  }

  @Override
  public void close() {
    isClosed = true;
    process.destroyForcibly();
    io.shutdownNow();
  }

  /** Sends a request; returns the answer's line (null if the output ends); skips printed text. */
  private String exchange(long requestNumber, String request) throws IOException {
    requestWriter.write(requestNumber + " " + request + "\n");
    requestWriter.flush();
    String line = answerReader.readLine();
    String prefix = requestNumber + " {";
    while (line != null && !line.startsWith(prefix)) {
      if (requestNumber > 1 && ANSWER_NUMBER.matcher(line).lookingAt()) {
        return line; // the answer to another request, which the caller reports
      }
      int index = line.indexOf(prefix); // after text printed without a line break
      line = index < 0 ? answerReader.readLine() : line.substring(index);
    }
    return line;
  }

  private static boolean awaitLateAnswer(Future<String> answerFuture) {
    try {
      return answerFuture.get(LATE_ANSWER_TIMEOUT_MS, TimeUnit.MILLISECONDS) != null;
    } catch (InterruptedException | ExecutionException | TimeoutException e) {
      return false;
    }
  }

  private void collectStderr() {
    char[] buffer = new char[1024];
    try (BufferedReader reader = process.errorReader(StandardCharsets.UTF_8)) {
      for (int n = reader.read(buffer); n >= 0; n = reader.read(buffer)) {
        synchronized (stderr) {
          stderr.append(buffer, 0, n);
          stderr.delete(0, Math.max(0, stderr.length() - MAX_STDERR_CHARS));
        }
      }
    } catch (IOException e) {
      // the process was killed; keep the text read so far
    }
  }

  /** Describes how the process ended: one line for a metric, and then the end of its stderr. */
  private String describeEnd() throws InterruptedException {
    process.waitFor(1, TimeUnit.SECONDS);
    stderrReader.join(1000);
    String stderrText;
    synchronized (stderr) {
      stderrText = stderr.toString().strip();
    }
    String lastLine = stderrText.substring(stderrText.lastIndexOf('\n') + 1);
    return " (" + python
        + (process.isAlive() ? "" : ", exit code " + process.exitValue())
        + (lastLine.isEmpty() ? "" : ": " + PlannerException.shorten(lastLine, 300))
        + "); if it has no assignor-bridge, set spark.assignor.python to a Python that has it"
        + (stderrText.isEmpty() ? "" : ". Its stderr:\n" + stderrText);
  }
}
