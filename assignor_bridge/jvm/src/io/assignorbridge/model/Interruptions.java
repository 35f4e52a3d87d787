package io.assignorbridge.model;

import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;

/** Distinguishes thread interruptions from socket timeouts, whose exceptions share a superclass. */
public final class Interruptions {
  private Interruptions() {}

  /** Returns whether a file system operation failed because its thread was interrupted. */
  public static boolean isInterruption(Throwable e) {
    boolean isTimeout = e.getClass().getSimpleName().contains("Timeout");
    return e instanceof ClosedByInterruptException
        || e instanceof InterruptedIOException && !isTimeout;
  }
}
