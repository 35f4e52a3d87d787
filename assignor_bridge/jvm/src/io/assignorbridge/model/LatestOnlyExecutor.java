package io.assignorbridge.model;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * Processes items on its own daemon thread. A new item replaces one that is still waiting, so slow
 * work never piles up and never blocks the caller.
 */
public final class LatestOnlyExecutor<T> {
  private final ExecutorService executor;
  private final Consumer<T> work;
  private final AtomicReference<T> waitingItem = new AtomicReference<>();

  public LatestOnlyExecutor(String threadName, Consumer<T> work) {
    this.work = work;
    executor = Executors.newSingleThreadExecutor(createDaemonFactory(threadName));
  }

  public static ThreadFactory createDaemonFactory(String threadName) {
    return task -> {
      Thread thread = new Thread(task, threadName);
      thread.setDaemon(true);
      return thread;
    };
  }

  public void submit(T item) {
    if (waitingItem.getAndSet(item) == null) {
      try {
        executor.execute(() -> work.accept(waitingItem.getAndSet(null)));
      } catch (RejectedExecutionException e) {
        // `finish` was called
      }
    }
  }

  /** Accepts no more items; after {@code timeoutMs} or an interrupt, interrupts the work. */
  public void finish(long timeoutMs) {
    executor.shutdown();
    try {
      executor.awaitTermination(timeoutMs, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    executor.shutdownNow();
  }
}
