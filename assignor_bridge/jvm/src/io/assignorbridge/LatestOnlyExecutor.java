package io.assignorbridge;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * Hands the newest of what comes to a daemon thread of its own. What a newer one overtakes is
 * dropped, so that slow work never piles up and never holds up who gives it.
 */
final class LatestOnlyExecutor<T> {
  private final ExecutorService thread;
  private final Consumer<T> work;
  private final AtomicReference<T> waiting = new AtomicReference<>();

  LatestOnlyExecutor(String name, Consumer<T> work) {
    this.work = work;
    thread =
        Executors.newSingleThreadExecutor(
            task -> {
              Thread made = new Thread(task, name);
              made.setDaemon(true);
              return made;
            });
  }

  void give(T item) {
    if (waiting.getAndSet(item) == null) {
      try {
        thread.execute(() -> work.accept(waiting.getAndSet(null)));
      } catch (RejectedExecutionException stopped) {
        // the stream has ended
      }
    }
  }

  /** Waits until all is done, at most this long; then nothing more is taken. */
  void finish(long timeoutMs) {
    thread.shutdown();
    try {
      thread.awaitTermination(timeoutMs, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    thread.shutdownNow();
  }
}
