package io.assignorbridge.model;

import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;

/** Tells a thread that was interrupted from a server that took too long: Java has one class for both. */
public final class Interruptions {
  private Interruptions() {}

  /** Whether a file system ended what it did because its thread was interrupted. */
  public static boolean isOne(Throwable e) {
    boolean timedOut = e.getClass().getSimpleName().contains("Timeout"); // of sockets, connections
    return e instanceof ClosedByInterruptException
        || e instanceof InterruptedIOException && !timedOut;
  }
}
