package io.assignorbridge.model;

import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;

/** Tells an interrupted thread from a server timeout, for which Java uses the same exception class. */
public final class Interruptions {
  private Interruptions() {}

  /** Returns whether a file system operation failed because its thread was interrupted. */
  public static boolean isInterruption(Throwable e) {
    boolean timedOut = e.getClass().getSimpleName().contains("Timeout"); // socket or connection timeouts
    return e instanceof ClosedByInterruptException
        || e instanceof InterruptedIOException && !timedOut;
  }
}
