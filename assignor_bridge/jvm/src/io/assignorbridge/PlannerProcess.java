package io.assignorbridge;

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

/**
 * One Python process that answers one JSON line for each JSON line. It ends when its standard input
 * closes, so it cannot outlive this JVM; after any failure it is killed, so that a late answer is
 * never taken for the next one.
 */
final class PlannerProcess implements AutoCloseable {
  private static final int MOST_LAST_WORDS = 4000;
  private static final ThreadFactory DAEMONS =
      task -> {
        Thread thread = new Thread(task, "assignor-planner-io");
        thread.setDaemon(true);
        return thread;
      };

  private final String python;
  private final Process process;
  private final BufferedWriter requests;
  private final BufferedReader answers;
  private final StringBuilder stderr = new StringBuilder();
  private final Thread stderrReader;
  private final ExecutorService io = Executors.newSingleThreadExecutor(DAEMONS);

  PlannerProcess(Interpreter interpreter) throws PlannerException {
    python = interpreter.command();
    try {
      process = interpreter.running("assignor_bridge.worker").start();
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
    stderrReader = DAEMONS.newThread(this::keepStderr);
    stderrReader.start();
  }

  /** Sends one line and waits for the answer, at most this long. */
  String ask(String request, long timeoutMs) throws PlannerException, InterruptedException {
    Future<String> answer = io.submit(() -> exchange(request));
    try {
      String line = answer.get(timeoutMs, TimeUnit.MILLISECONDS);
      if (line == null) {
        throw new PlannerException("the planner process ended without an answer" + lastWords());
      }
      return line;
    } catch (TimeoutException e) {
      throw new PlannerException(
          "the planner did not answer within " + timeoutMs + " ms (assignor.planTimeoutMs)", e);
    } catch (ExecutionException e) {
      throw new PlannerException("the planner process broke off" + lastWords(), e.getCause());
    }
  }

  boolean isAlive() {
    return process.isAlive();
  }

  @Override
  public void close() {
    process.destroyForcibly();
    io.shutdownNow();
  }

  private String exchange(String request) throws IOException {
    requests.write(request);
    requests.write('\n');
    requests.flush();
    return answers.readLine();
  }

  /** Keeps the end of what it says. */
  private void keepStderr() {
    char[] part = new char[1024];
    try (BufferedReader said = process.errorReader(StandardCharsets.UTF_8)) {
      for (int n = said.read(part); n >= 0; n = said.read(part)) {
        synchronized (stderr) {
          stderr.append(part, 0, n);
          stderr.delete(0, Math.max(0, stderr.length() - MOST_LAST_WORDS));
        }
      }
    } catch (IOException ended) {
      // the process was killed: what it said is kept
    }
  }

  /** How it ended: on one line, for a metric, and after it all that is kept of what it said. */
  private String lastWords() throws InterruptedException {
    process.waitFor(1, TimeUnit.SECONDS);
    stderrReader.join(1000);
    String said;
    synchronized (stderr) {
      said = stderr.toString().strip();
    }
    String last = said.substring(said.lastIndexOf('\n') + 1);
    return " ("
        + python
        + (process.isAlive() ? "" : ", exit code " + process.exitValue())
        + (last.isEmpty() ? "" : ": " + PlannerException.shortened(last, 300))
        + "); is assignor-bridge installed there? See spark.assignor.python"
        + (said.isEmpty() ? "" : ". It said:\n" + said);
  }
}
