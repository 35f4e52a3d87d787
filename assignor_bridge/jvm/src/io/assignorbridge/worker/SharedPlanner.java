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
 * planning timeout, so a slow plan or a crash fails only its own stream. A stream that has
 * waited for a minute, or has a custom assignor, which may do anything, gets its own process.
 */
public final class SharedPlanner {
  private static final long START_TIMEOUT_MS = 60_000;
  private static final long MAX_TURN_WAIT_MS = 60_000;
  private static final Map<Interpreter, SharedPlanner> SHARED_PLANNERS = new HashMap<>(); // a lock
  private static final AtomicInteger LAST_STREAM_NUMBER = new AtomicInteger();

  private final Interpreter interpreter;
  private final ReentrantLock turn = new ReentrantLock(true);
  private final Queue<Integer> endedStreams = new ConcurrentLinkedQueue<>(); // EndStream not sent
  private int streamCount; // lock: SHARED_PLANNERS
  private volatile PlannerProcess process; // written only by the holder of `turn`

  private SharedPlanner(Interpreter interpreter) {
    this.interpreter = interpreter;
  }

  /** One stream's connection to its planner, used on the stream's thread. */
  public static final class Client implements AutoCloseable {
    private final int streamNumber = LAST_STREAM_NUMBER.incrementAndGet();
    private final AssignorOptions options;
    private final long maxTurnWaitMs;
    private SharedPlanner planner;
    private PlannerProcess initializedProcess; // the process that has this stream's options
    private Messages.Validated validation;

    public Client(AssignorOptions options) {
      this(options, MAX_TURN_WAIT_MS);
    }

    public Client(AssignorOptions options, long maxTurnWaitMs) {
      this.options = options;
      this.maxTurnWaitMs = maxTurnWaitMs;
      planner =
          options.usesCustomAssignor()
              ? createUnsharedPlanner()
              : joinSharedPlanner(options.interpreter());
    }

    /** Returns the number of the stream in this driver, from 1. */
    public int streamNumber() {
      return streamNumber;
    }

    /** Returns the planner's answer to this stream's options; first sends them if necessary. */
    public Messages.Validated validate() throws PlannerException, InterruptedException {
      if (initializedProcess == null || !initializedProcess.isAlive()) {
        takeTurn();
        try {
          planner.prepareProcess(this);
        } finally {
          planner.turn.unlock();
        }
      }
      return validation;
    }

    /** Sends a request and returns the answer; first sends the options if the process lacks them. */
    public String sendRequest(String request, long timeoutMs)
        throws PlannerException, InterruptedException {
      takeTurn();
      try {
        return planner.prepareProcess(this).sendRequest(streamNumber, request, timeoutMs);
      } finally {
        planner.turn.unlock();
      }
    }

    /** Discards what the planner remembers of this stream; takes effect at the next request. */
    public void forget() {
      initializedProcess = null;
      if (options.usesCustomAssignor() && planner.process != null) {
        planner.process.close();
      }
    }

    @Override
    public void close() {
      planner.leave(streamNumber);
    }

    /** Waits for this stream's turn; if that takes too long, switches to a separate process. */
    private void takeTurn() throws InterruptedException {
      if (!planner.turn.tryLock(maxTurnWaitMs, TimeUnit.MILLISECONDS)) {
        planner.leave(streamNumber);
        planner = createUnsharedPlanner();
        planner.turn.lock();
      }
    }

    private SharedPlanner createUnsharedPlanner() {
      SharedPlanner planner = new SharedPlanner(options.interpreter());
      planner.streamCount = 1;
      return planner;
    }
  }

  private static SharedPlanner joinSharedPlanner(Interpreter interpreter) {
    synchronized (SHARED_PLANNERS) {
      SharedPlanner planner = SHARED_PLANNERS.computeIfAbsent(interpreter, SharedPlanner::new);
      planner.streamCount++;
      return planner;
    }
  }

  /** Returns a running process that has this stream's options; ends streams that were closed. */
  private PlannerProcess prepareProcess(Client client) throws PlannerException, InterruptedException {
    PlannerProcess currentProcess = process;
    if (currentProcess == null || !currentProcess.isAlive()) {
      if (currentProcess != null) {
        currentProcess.close();
      }
      endedStreams.clear();
      currentProcess = new PlannerProcess(interpreter);
      process = currentProcess;
    }
    for (Integer number = endedStreams.poll(); number != null; number = endedStreams.poll()) {
      String request = Messages.format(new Messages.EndStream());
      currentProcess.sendRequest(number, request, START_TIMEOUT_MS);
    }
    if (client.initializedProcess != currentProcess) {
      String request = Messages.format(new Messages.ValidateOptions(client.options.values()));
      String answer = currentProcess.sendRequest(client.streamNumber, request, START_TIMEOUT_MS);
      client.validation = Messages.parse(answer, Messages.Validated.class);
      client.initializedProcess = currentProcess;
    }
    return currentProcess;
  }

  /** Ends a stream; the last one closes the process. */
  private void leave(int streamNumber) {
    synchronized (SHARED_PLANNERS) {
      streamCount--;
      if (streamCount > 0) {
        endedStreams.add(streamNumber);
        return;
      }
      SHARED_PLANNERS.remove(interpreter, this);
    }
    if (process != null) {
      process.close();
    }
  }
}
