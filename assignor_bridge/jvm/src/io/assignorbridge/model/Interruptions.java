package io.assignorbridge.model;

import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;

/** Tells an interrupted thread from a server timeout; Java uses one exception class for both. */
public final class Interruptions {
  private Interruptions() {}

  /** Returns whether a file system operation failed because its thread was interrupted. */
  public static boolean isInterruption(Throwable e) {
    boolean timedOut = e.getClass().getSimpleName().contains("Timeout"); // of a socket
    return e instanceof ClosedByInterruptException
        || e instanceof InterruptedIOException && !timedOut;
  }
}
