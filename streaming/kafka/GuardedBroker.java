import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Runs a Kafka broker that cannot outlive the process that started it.
 *
 * <p>The starter holds the other end of standard input. Its end, also by kill -9, ends the broker:
 * at once where the data is temporary (then the folder goes too), with an orderly shutdown
 * otherwise. Arguments: properties file, cluster id to format with or "-", folder to remove or "-".
 */
public final class GuardedBroker {
  private static final long SHUTDOWN_LIMIT_MS = 20_000;

  @SuppressWarnings("unused") // Held, because a channel that is collected gives up its lock.
  private static FileLock folderLock;

  private GuardedBroker() {}

  public static void main(String[] args) {
    String properties = args[0];
    String clusterId = args[1];
    String temporary = args[2];
    daemon("starter-guard", () -> endWithStarter(temporary));
    if (!isLocked(Path.of(properties).resolveSibling("broker.lock"))) {
      System.out.println("another broker is using the folder of " + properties);
      System.exit(1);
    }
    if (!clusterId.equals("-")) {
      String[] format = {"format", "--config", properties, "--cluster-id", clusterId};
      int status = kafka.tools.StorageTool.execute(format, System.out);
      if (status != 0) {
        System.exit(status);
      }
    }
    kafka.Kafka.main(new String[] {properties});
  }

  /** Kafka locks its folder only after it has written metadata there, too late for a second one. */
  private static boolean isLocked(Path file) {
    try {
      folderLock =
          FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE).tryLock();
      return folderLock != null;
    } catch (IOException refused) {
      System.out.println(file + " cannot be locked: " + refused);
      return false;
    }
  }

  private static void endWithStarter(String temporary) {
    try {
      while (System.in.read() >= 0) {
        // Nothing is ever sent: only the end of the stream counts.
      }
    } catch (IOException gone) {
      System.out.println("standard input failed, taken as its end: " + gone);
    }
    if (!temporary.equals("-")) {
      try {
        remove(Path.of(temporary));
      } finally { // whatever it ran into: a broker must not be left behind
        Runtime.getRuntime().halt(0);
      }
    }
    daemon("shutdown-limit", GuardedBroker::haltAfterLimit);
    System.exit(0);
  }

  private static void haltAfterLimit() {
    try {
      Thread.sleep(SHUTDOWN_LIMIT_MS);
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
    }
    Runtime.getRuntime().halt(1);
  }

  private static void remove(Path folder) {
    try (Stream<Path> found = Files.walk(folder)) {
      List<Path> deepestFirst = found.sorted(Comparator.reverseOrder()).toList();
      for (Path path : deepestFirst) {
        Files.deleteIfExists(path);
      }
    } catch (IOException | UncheckedIOException busy) { // the broker still renames files in it
      System.out.println("the temporary folder could not be removed whole: " + busy);
    }
  }

  private static void daemon(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }
}
