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
 * Runs a Kafka broker that ends with the process that started it.
 *
 * <p>The parent process holds the other end of standard input. When it ends, even by kill -9, a
 * broker with temporary data deletes its folder and halts; any other broker shuts down cleanly.
 * Arguments: properties file, cluster ID for formatting or "-", folder to delete or "-".
 */
public final class GuardedBroker {
  private static final long SHUTDOWN_LIMIT_MS = 20_000;

  @SuppressWarnings("unused") // A channel that is garbage-collected would release its lock.
  private static FileLock folderLock;

  private GuardedBroker() {}

  public static void main(String[] args) {
    String propertiesFile = args[0];
    String clusterId = args[1];
    String temporaryFolder = args[2];
    startDaemon("parent-guard", () -> endWithParent(temporaryFolder));
    if (!lock(Path.of(propertiesFile).resolveSibling("broker.lock"))) {
      System.exit(1);
    }
    if (!clusterId.equals("-")) {
      String[] formatArguments = {"format", "--config", propertiesFile, "--cluster-id", clusterId};
      int status = kafka.tools.StorageTool.execute(formatArguments, System.out);
      if (status != 0) {
        System.exit(status);
      }
    }
    kafka.Kafka.main(new String[] {propertiesFile});
  }

  /** Locks the folder or prints why not; Kafka locks it only after it has written metadata. */
  private static boolean lock(Path lockFile) {
    try {
      folderLock =
          FileChannel.open(lockFile, StandardOpenOption.CREATE, StandardOpenOption.WRITE).tryLock();
      if (folderLock == null) {
        System.out.println("another broker is using the folder of " + lockFile);
      }
      return folderLock != null;
    } catch (IOException error) {
      System.out.println(lockFile + " cannot be locked: " + error);
      return false;
    }
  }

  private static void endWithParent(String temporaryFolder) {
    try {
      while (System.in.read() >= 0) {
        // The parent sends nothing; only the end of the stream matters.
      }
    } catch (IOException error) {
      System.out.println("standard input failed, so the broker ends: " + error);
    }
    if (!temporaryFolder.equals("-")) {
      try {
        deleteFolder(Path.of(temporaryFolder));
      } finally { // halt even after an error, so that no broker keeps running
        Runtime.getRuntime().halt(0);
      }
    }
    startDaemon("shutdown-limit", GuardedBroker::haltAfterLimit);
    System.exit(0);
  }

  private static void haltAfterLimit() {
    try {
      Thread.sleep(SHUTDOWN_LIMIT_MS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    Runtime.getRuntime().halt(1);
  }

  private static void deleteFolder(Path folder) {
    try (Stream<Path> paths = Files.walk(folder)) {
      List<Path> deepestFirst = paths.sorted(Comparator.reverseOrder()).toList();
      for (Path path : deepestFirst) {
        Files.deleteIfExists(path);
      }
    } catch (IOException | UncheckedIOException error) { // the broker still renames files in it
      System.out.println("the temporary folder could not be deleted completely: " + error);
    }
  }

  private static void startDaemon(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }
}
