package io.assignorbridge.worker;

import io.assignorbridge.model.PlannerException;
import io.assignorbridge.settings.AssignorOptions;
import io.assignorbridge.settings.Interpreter;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A planner process and the streams that it serves: all of this driver that have the same
 * interpreter. It starts with the first request, again with the next one after it has ended, and ends
 * with the last stream.
 *
 * <p>One request is under way at a time. Waiting for the turn does not count as planning, so a plan
 * that takes too long or ends the process is a failure of its own stream only. A stream with an
 * assignor of the user's own has a process to itself: that code may do what it likes.
 */
public final class SharedPlanner {
  private static final long START_TIMEOUT_MS = 60_000;
  private static final long LONGEST_TURN_WAIT_MS = 60_000;
  private static final Map<Interpreter, SharedPlanner> SHARED = new HashMap<>(); // locked itself
  private static final AtomicInteger STREAMS = new AtomicInteger();

  private final Interpreter interpreter;
  private final ReentrantLock turn = new ReentrantLock(true);
  private final Queue<Integer> ended = new ConcurrentLinkedQueue<>(); // the process still has these
  private int streams; // with SHARED locked
  private volatile PlannerProcess process; // replaced by who has the turn; null before the first

  private SharedPlanner(Interpreter interpreter) {
    this.interpreter = interpreter;
  }

  /** One stream's way to its planner, on the stream's thread. */
  public static final class Client implements AutoCloseable {
    private final int stream = STREAMS.incrementAndGet();
    private final AssignorOptions options;
    private final long longestWaitMs;
    private SharedPlanner planner;
    private PlannerProcess informed; // has the options
    private Messages.Validated valid;

    public Client(AssignorOptions options) {
      this(options, LONGEST_TURN_WAIT_MS);
    }

    public Client(AssignorOptions options, long longestWaitMs) {
      this.options = options;
      this.longestWaitMs = longestWaitMs;
      planner = options.usesCustomAssignor() ? alone() : shared(options.interpreter());
    }

    /** Its number in this driver, from 1. */
    public int stream() {
      return stream;
    }

    /** What the options mean, as the process says that runs now. */
    public Messages.Validated validated() throws PlannerException, InterruptedException {
      if (informed == null || !informed.isAlive()) {
        takeTurn();
        try {
          planner.ready(this);
        } finally {
          planner.turn.unlock();
        }
      }
      return valid;
    }

    /** Sends a request, after the options to a process that has not got them. */
    public String ask(String request, long timeoutMs) throws PlannerException, InterruptedException {
      takeTurn();
      try {
        return planner.ready(this).ask(stream, request, timeoutMs);
      } finally {
        planner.turn.unlock();
      }
    }

    /** Has the next request begin anew, with nothing that the planner remembers of this stream. */
    public void forget() {
      informed = null;
      if (options.usesCustomAssignor() && planner.process != null) {
        planner.process.close();
      }
    }

    @Override
    public void close() {
      planner.leave(stream);
    }

    /** Others that keep the process busy for very long may have it to themselves. */
    private void takeTurn() throws InterruptedException {
      if (!planner.turn.tryLock(longestWaitMs, TimeUnit.MILLISECONDS)) {
        planner.leave(stream);
        planner = alone();
        planner.turn.lock();
      }
    }

    private SharedPlanner alone() {
      SharedPlanner planner = new SharedPlanner(options.interpreter());
      planner.streams = 1;
      return planner;
    }
  }

  private static SharedPlanner shared(Interpreter interpreter) {
    synchronized (SHARED) {
      SharedPlanner planner = SHARED.computeIfAbsent(interpreter, SharedPlanner::new);
      planner.streams++;
      return planner;
    }
  }

  /** The process, which has the options of this stream and nothing of those that have ended. */
  private PlannerProcess ready(Client client) throws PlannerException, InterruptedException {
    PlannerProcess running = process;
    if (running == null || !running.isAlive()) {
      if (running != null) {
        running.close();
      }
      ended.clear();
      running = new PlannerProcess(interpreter);
      process = running;
    }
    for (Integer stream = ended.poll(); stream != null; stream = ended.poll()) {
      running.ask(stream, Messages.write(new Messages.End()), START_TIMEOUT_MS);
    }
    if (client.informed != running) {
      String request = Messages.write(new Messages.Validate(client.options.values()));
      String answer = running.ask(client.stream, request, START_TIMEOUT_MS);
      client.valid = Messages.read(answer, Messages.Validated.class);
      client.informed = running;
    }
    return running;
  }

  private void leave(int stream) {
    synchronized (SHARED) {
      streams--;
      if (streams > 0) {
        ended.add(stream);
        return;
      }
      SHARED.remove(interpreter, this);
    }
    if (process != null) {
      process.close();
    }
  }
}
