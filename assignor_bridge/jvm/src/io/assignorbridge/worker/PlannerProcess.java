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
 * The Python process that answers each line with a line, one at a time. It ends when its standard
 * input closes, so it cannot outlive this JVM. After a failed {@link #ask} it is closed: a late answer
 * must not be taken for the next one.
 */
final class PlannerProcess implements AutoCloseable {
  private static final int MOST_STDERR = 4000;
  private static final long LATE_MS = 1000;
  private static final Pattern ANSWER = Pattern.compile("\\d+ ");
  private static final ThreadFactory DAEMONS = LatestOnlyExecutor.daemonFactory("assignor-planner-io");

  private final String python;
  private final Process process;
  private final BufferedWriter requests;
  private final BufferedReader answers;
  private final StringBuilder stderr = new StringBuilder();
  private final Thread stderrReader = DAEMONS.newThread(this::keepStderr);
  private final ExecutorService io = Executors.newSingleThreadExecutor(DAEMONS);
  private long asked;
  private volatile boolean isClosed;

  PlannerProcess(Interpreter interpreter) throws PlannerException {
    python = interpreter.command();
    try {
      process = interpreter.prepareWorker().start();
    } catch (IOException e) {
      throw new PlannerException(
          "the planner's interpreter '"
              + python
              + "' could not be started ("
              + e.getMessage()
              + "): set spark.assignor.python to a Python that has assignor-bridge installed",
          e);
    }
    requests = process.outputWriter(StandardCharsets.UTF_8);
    answers = process.inputReader(StandardCharsets.UTF_8);
    stderrReader.start();
  }

  /** Sends a request of a stream and waits for its answer, at most this long. */
  String ask(int stream, String request, long timeoutMs)
      throws PlannerException, InterruptedException {
    long number = ++asked; // begins the answer, too
    Future<String> answer = io.submit(() -> exchange(number, stream + " " + request));
    boolean inStep = false;
    try {
      String line = answer.get(timeoutMs, TimeUnit.MILLISECONDS);
      if (line == null) {
        throw new PlannerException("the planner process ended without an answer" + howItEnded());
      }
      String begin = number + " ";
      if (!line.startsWith(begin)) {
        throw new PlannerException(
            "the planner answered another request: " + PlannerException.shorten(line, 200));
      }
      inStep = true;
      return line.substring(begin.length());
    } catch (TimeoutException e) {
      throw new PlannerException(
          "the planner did not answer within " + timeoutMs + " ms (assignor.planTimeoutMs)", e);
    } catch (ExecutionException e) {
      throw new PlannerException(
          "the connection to the planner process broke" + howItEnded(), e.getCause());
    } catch (InterruptedException e) { // the query is being stopped; other streams go on
      inStep = comes(answer);
      throw e;
    } finally {
      if (!inStep) {
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

  /** The next answer; what a Python prints as it starts, before the planner's first one, is none. */
  private String exchange(long number, String request) throws IOException {
    requests.write(number + " " + request + "\n");
    requests.flush();
    String line = answers.readLine();
    String begin = number + " {";
    while (line != null && !line.startsWith(begin)) {
      if (number > 1 && ANSWER.matcher(line).lookingAt()) {
        return line; // of another request: the caller says so
      }
      int at = line.indexOf(begin); // behind a print without a line's end
      line = at < 0 ? answers.readLine() : line.substring(at);
    }
    return line;
  }

  private static boolean comes(Future<String> answer) {
    try {
      return answer.get(LATE_MS, TimeUnit.MILLISECONDS) != null;
    } catch (InterruptedException | ExecutionException | TimeoutException e) {
      return false;
    }
  }

  private void keepStderr() {
    char[] part = new char[1024];
    try (BufferedReader reader = process.errorReader(StandardCharsets.UTF_8)) {
      for (int n = reader.read(part); n >= 0; n = reader.read(part)) {
        synchronized (stderr) {
          stderr.append(part, 0, n);
          stderr.delete(0, Math.max(0, stderr.length() - MOST_STDERR));
        }
      }
    } catch (IOException ended) {
      // the process was killed: what it wrote is kept
    }
  }

  /** How it ended: on one line, for a metric, and after it the end of what it wrote. */
  private String howItEnded() throws InterruptedException {
    process.waitFor(1, TimeUnit.SECONDS);
    stderrReader.join(1000);
    String text;
    synchronized (stderr) {
      text = stderr.toString().strip();
    }
    String last = text.substring(text.lastIndexOf('\n') + 1);
    return " ("
        + python
        + (process.isAlive() ? "" : ", exit code " + process.exitValue())
        + (last.isEmpty() ? "" : ": " + PlannerException.shorten(last, 300))
        + "); is assignor-bridge installed there? See spark.assignor.python"
        + (text.isEmpty() ? "" : ". It said:\n" + text);
  }
}
