package io.assignorbridge;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, but that it starts no processes. Without its native library Hadoop runs
 * `chmod` for each file that it makes and `readlink` for each that it renames: about ten processes
 * for one small file of Spark's offset log, commit log or of a Delta log. Names, bytes, checksums,
 * permissions and the order of steps stay Hadoop's. A Hadoop setting names this class:
 * `fs.AbstractFileSystem.file.impl`.
 */
public final class LocalFiles extends ChecksumFs {
  private static final String SCHEME = FsConstants.LOCAL_FS_URI.getScheme();

  /** Called by Hadoop. */
  public LocalFiles(URI uri, Configuration configuration) throws IOException, URISyntaxException {
    super(new ByFileSystem(uri, configuration));
  }

  private static final class ByFileSystem extends DelegateToFileSystem {
    ByFileSystem(URI uri, Configuration configuration) throws IOException, URISyntaxException {
      super(uri, new WithoutProcesses(), configuration, SCHEME, false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1; // a file has none
    }

    @Override
    public boolean isValidName(String name) {
      return true; // the machine's file system knows better
    }
  }

  private static final class WithoutProcesses extends RawLocalFileSystem {
    private static final String MODE = "unix:mode";
    private static final int SET_IDS = 06000;

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      try {
        java.nio.file.Path file = pathToFile(path).toPath();
        int kept = 0; // as chmod does: a folder hands its group on, if its parent made it so
        if (Files.isDirectory(file)) {
          kept = (Integer) Files.getAttribute(file, MODE) & SET_IDS;
        }
        Files.setAttribute(file, MODE, permission.toShort() | kept);
      } catch (UnsupportedOperationException | IllegalArgumentException e) { // Windows
        super.setPermission(path, permission);
      }
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      boolean isLink = Files.isSymbolicLink(pathToFile(path).toPath());
      return isLink ? super.getFileLinkStatus(path) : getFileStatus(path);
    }
  }
}
