package io.assignorbridge.model;

import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;

/** Distinguishes thread interruptions from socket timeouts, which share a Java exception class. */
public final class Interruptions {
  private Interruptions() {}

  /** Returns whether a file system operation failed because its thread was interrupted. */
  public static boolean isInterruption(Throwable e) {
    boolean timedOut = e.getClass().getSimpleName().contains("Timeout"); // socket timeout
    return e instanceof ClosedByInterruptException
        || e instanceof InterruptedIOException && !timedOut;
  }
}
