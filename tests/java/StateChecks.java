package io.assignorbridge.state;

import java.io.IOException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * States where a file system fails now and then, as an object store does. Arguments: what is tried
 * (`locked`: one file cannot be deleted; `unlisted`: the first two listings fail; `silent`: they
 * wait in vain) and a folder. What
 * is logged goes to standard error.
 */
public final class StateChecks {
  private static final int BATCHES = 10;
  private static final int FAILING = 2; // listings: before the first plan, and the first write
  private static final long NEWEST = 50_002; // of the run before, where nothing can be listed

  private static boolean silent;

  private StateChecks() {}

  /** The local file system under another scheme; `0.v2` stays. */
  public static final class Locked extends RawLocalFileSystem {
    @Override
    public URI getUri() {
      return URI.create("locked:///");
    }

    @Override
    public boolean delete(org.apache.hadoop.fs.Path path, boolean recursive) throws IOException {
      if (path.getName().equals("0.v2")) {
        throw new IOException("locked");
      }
      return super.delete(path, recursive);
    }
  }

  /** The local file system under another scheme, which cannot be listed at first. */
  public static final class Unlisted extends RawLocalFileSystem {
    private static final AtomicInteger LISTINGS = new AtomicInteger();

    @Override
    public URI getUri() {
      return URI.create("unlisted:///");
    }

    @Override
    public FileStatus[] listStatus(org.apache.hadoop.fs.Path path) throws IOException {
      if (LISTINGS.incrementAndGet() <= FAILING) {
        throw silent ? new SocketTimeoutException("Read timed out") : new IOException("slow down");
      }
      return super.listStatus(path);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    configuration.set("fs.locked.impl", Locked.class.getName());
    configuration.set("fs.unlisted.impl", Unlisted.class.getName());
    silent = arguments[0].equals("silent");
    String scheme = silent ? "unlisted" : arguments[0];
    boolean unlisted = scheme.equals("unlisted");
    StateFiles files = new StateFiles(scheme + "://" + arguments[1], configuration);
    files.restore(2, state -> null);
    for (int batch = 0; batch < BATCHES; batch++) {
      files.save("state " + batch, 2);
      String name = (unlisted ? NEWEST + batch : batch) + ".v2";
      Path written = Path.of(arguments[1], "assignments", name);
      BooleanSupplier tried =
          unlisted && batch == 0
              ? () -> Unlisted.LISTINGS.get() == FAILING
              : () -> Files.exists(written);
      for (int look = 0; !tried.getAsBoolean() && look < 500; look++) {
        Thread.sleep(10); // until the writer's thread has done it
      }
    }
    files.close();
  }
}
