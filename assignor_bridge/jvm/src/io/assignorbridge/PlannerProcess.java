package io.assignorbridge;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
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
  private static final int STDERR_LINES = 30;
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
  private final ArrayDeque<String> stderr = new ArrayDeque<>();
  private final Thread stderrReader;
  private final ExecutorService io = Executors.newSingleThreadExecutor(DAEMONS);

  PlannerProcess(String python) throws PlannerException {
    this.python = python;
    try {
      process = new ProcessBuilder(python, "-m", "assignor_bridge.worker").start();
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

  private void keepStderr() {
    try (BufferedReader lines = process.errorReader(StandardCharsets.UTF_8)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        synchronized (stderr) {
          stderr.add(line);
          if (stderr.size() > STDERR_LINES) {
            stderr.remove();
          }
        }
      }
    } catch (IOException ended) {
      // the process was killed: what it said is kept
    }
  }

  private String lastWords() throws InterruptedException {
    process.waitFor(1, TimeUnit.SECONDS);
    stderrReader.join(1000);
    String exit = process.isAlive() ? "" : ", exit code " + process.exitValue();
    synchronized (stderr) {
      return " ("
          + python
          + exit
          + "); is assignor-bridge installed there? See spark.assignor.python"
          + (stderr.isEmpty() ? "" : ". It said:\n" + String.join("\n", stderr));
    }
  }
}
