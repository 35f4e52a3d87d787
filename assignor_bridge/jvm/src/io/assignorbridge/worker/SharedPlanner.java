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
 * The planner process that this driver's streams with the same interpreter share. It starts with
 * the first request, restarts with the next request after a failure, and ends with the last stream.
 *
 * <p>It handles one request at a time. Waiting for other streams does not count towards the
 * planning timeout, so a slow plan or a crash fails only its own stream. A stream with a custom
 * assignor gets its own process, because custom code may do anything.
 */
public final class SharedPlanner {
  private static final long START_TIMEOUT_MS = 60_000;
  private static final long MAX_TURN_WAIT_MS = 60_000;
  private static final Map<Interpreter, SharedPlanner> SHARED = new HashMap<>(); // lock: SHARED
  private static final AtomicInteger STREAMS = new AtomicInteger();

  private final Interpreter interpreter;
  private final ReentrantLock turn = new ReentrantLock(true);
  private final Queue<Integer> ended = new ConcurrentLinkedQueue<>(); // maybe still in the process
  private int streams; // lock: SHARED
  private volatile PlannerProcess process; // written only by the holder of `turn`

  private SharedPlanner(Interpreter interpreter) {
    this.interpreter = interpreter;
  }

  /** One stream's connection to its planner, used on the stream's thread. */
  public static final class Client implements AutoCloseable {
    private final int stream = STREAMS.incrementAndGet();
    private final AssignorOptions options;
    private final long maxWaitMs;
    private SharedPlanner planner;
    private PlannerProcess initialized; // the process that has this stream's options
    private Messages.Validated validated;

    public Client(AssignorOptions options) {
      this(options, MAX_TURN_WAIT_MS);
    }

    public Client(AssignorOptions options, long maxWaitMs) {
      this.options = options;
      this.maxWaitMs = maxWaitMs;
      planner = options.usesCustomAssignor() ? createUnshared() : joinShared(options.interpreter());
    }

    /** Returns the number of the stream in this driver, from 1. */
    public int stream() {
      return stream;
    }

    /** Returns the effective options, validated by the current process. */
    public Messages.Validated validate() throws PlannerException, InterruptedException {
      if (initialized == null || !initialized.isAlive()) {
        takeTurn();
        try {
          planner.prepare(this);
        } finally {
          planner.turn.unlock();
        }
      }
      return validated;
    }

    /** Sends a request, preceded by the options if the process does not have them. */
    public String ask(String request, long timeoutMs) throws PlannerException, InterruptedException {
      takeTurn();
      try {
        return planner.prepare(this).ask(stream, request, timeoutMs);
      } finally {
        planner.turn.unlock();
      }
    }

    /** Makes the planner discard this stream's memory before the next request. */
    public void forget() {
      initialized = null;
      if (options.usesCustomAssignor() && planner.process != null) {
        planner.process.close();
      }
    }

    @Override
    public void close() {
      planner.leave(stream);
    }

    /** Waits for this stream's turn; if that takes too long, switches to a separate process. */
    private void takeTurn() throws InterruptedException {
      if (!planner.turn.tryLock(maxWaitMs, TimeUnit.MILLISECONDS)) {
        planner.leave(stream);
        planner = createUnshared();
        planner.turn.lock();
      }
    }

    private SharedPlanner createUnshared() {
      SharedPlanner planner = new SharedPlanner(options.interpreter());
      planner.streams = 1;
      return planner;
    }
  }

  private static SharedPlanner joinShared(Interpreter interpreter) {
    synchronized (SHARED) {
      SharedPlanner planner = SHARED.computeIfAbsent(interpreter, SharedPlanner::new);
      planner.streams++;
      return planner;
    }
  }

  /** Returns a running process that has this stream's options; ends streams that were closed. */
  private PlannerProcess prepare(Client client) throws PlannerException, InterruptedException {
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
    if (client.initialized != running) {
      String request = Messages.write(new Messages.Validate(client.options.values()));
      String answer = running.ask(client.stream, request, START_TIMEOUT_MS);
      client.validated = Messages.read(answer, Messages.Validated.class);
      client.initialized = running;
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
