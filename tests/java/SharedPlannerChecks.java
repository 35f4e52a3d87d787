package io.assignorbridge.worker;

import io.assignorbridge.settings.AssignorOptions;
import io.assignorbridge.settings.Interpreter;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;

/**
 * Streams of one driver at one planner, which answers whether a state can be used with its process
 * id, after as many milliseconds as the state says. Argument: the planner. Prints a line a check.
 */
public final class SharedPlannerChecks {
  private static final int FOR_EVER = 600_000;

  private SharedPlannerChecks() {}

  public static void main(String[] arguments) throws Exception {
    Interpreter python = new Interpreter(arguments[0], List.of(), List.of());
    AssignorOptions options =
        new AssignorOptions(Map.of("assignor", "sticky"), Map.of(), python, List.of());
    SharedPlanner.Client one = new SharedPlanner.Client(options);
    SharedPlanner.Client other = new SharedPlanner.Client(options, 300);
    long first = pid(one, 0, 60_000);
    check("two streams share a process", pid(other, 0, 60_000) == first);

    check("a stopped one is interrupted", stopped(one, 400));
    check("and its late answer is not the next one's", pid(other, 0, 60_000) == first);
    check("one that is stopped while it hangs is interrupted", stopped(one, FOR_EVER));
    long second = pid(other, 0, 60_000);
    check("and leaves a process behind that is new", second != first && isGone(first));

    FutureTask<Long> hangs = asking(one, FOR_EVER, 8_000);
    long alone = pid(other, 0, 60_000);
    check("who waits for very long has a process to itself", alone != second && !hangs.isDone());
    String why = "";
    try {
      hangs.get();
    } catch (java.util.concurrent.ExecutionException e) {
      why = e.getCause().getMessage();
    }
    check("who hangs is told so", why.startsWith("the planner did not answer within 8000 ms"));
    check("its process has ended", isGone(second));
    long third = pid(one, 0, 60_000);
    check("and it goes on in another one", third != second && third != alone);
    one.close();
    other.close();
    check("the last stream ends the process", isGone(third) && isGone(alone));
  }

  private static long pid(SharedPlanner.Client client, int afterMs, long timeoutMs)
      throws Exception {
    String request = Messages.format(new Messages.Restore("" + afterMs, List.of()));
    String answer = client.sendRequest(request, timeoutMs);
    return Long.parseLong(Messages.parse(answer, Messages.Restored.class).why());
  }

  /** Asks on another thread, which waits for the answer when this returns. */
  private static FutureTask<Long> asking(SharedPlanner.Client client, int afterMs, long timeoutMs)
      throws Exception {
    FutureTask<Long> task = new FutureTask<>(() -> pid(client, afterMs, timeoutMs));
    waitFor(start(task), Thread.State.TIMED_WAITING);
    return task;
  }

  /** Whether an interrupt of the thread that asks becomes an InterruptedException. */
  private static boolean stopped(SharedPlanner.Client client, int afterMs) throws Exception {
    boolean[] interrupted = new boolean[1];
    Thread thread =
        start(
            () -> {
              try {
                pid(client, afterMs, 60_000);
              } catch (InterruptedException e) {
                interrupted[0] = true;
              } catch (Exception e) {
                e.printStackTrace();
              }
            });
    waitFor(thread, Thread.State.TIMED_WAITING);
    thread.interrupt();
    thread.join();
    return interrupted[0];
  }

  private static Thread start(Runnable work) {
    Thread thread = new Thread(work);
    thread.start();
    return thread;
  }

  private static void waitFor(Thread thread, Thread.State state) {
    while (thread.getState() != state) {
      Thread.onSpinWait();
    }
  }

  /** Whether a process ends that was told to. */
  private static boolean isGone(long pid) throws Exception {
    var process = ProcessHandle.of(pid);
    if (process.isPresent()) {
      process.get().onExit().get();
    }
    return true;
  }

  private static void check(String what, boolean holds) {
    System.out.println((holds ? "ok " : "NOT ") + what);
  }
}
