package io.assignorbridge;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * States where one file cannot be deleted, as under a lock of an object store. Argument: an empty
 * folder. What is logged goes to standard error.
 */
public final class StateChecks {
  private static final int BATCHES = 10;

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

  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    configuration.set("fs.locked.impl", Locked.class.getName());
    StateFiles files = new StateFiles("locked://" + arguments[0], configuration);
    files.restore(2, state -> null);
    for (int batch = 0; batch < BATCHES; batch++) {
      Path written = Path.of(arguments[0], "assignments", batch + ".v2");
      files.save("state " + batch, 2);
      for (int look = 0; !Files.exists(written) && look < 3_000; look++) {
        Thread.sleep(10); // until the writer's thread has written it
      }
    }
    files.close();
  }
}
