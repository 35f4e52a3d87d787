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
 * Hadoop's local file system without external processes. Without its native library, Hadoop runs
 * `chmod` for each file that it creates and `readlink` for each file that it renames: about ten
 * processes per small file in Spark's offset log, commit log, or a Delta log. File names, bytes,
 * checksums, permissions, and the order of operations are Hadoop's. The Hadoop setting
 * `fs.AbstractFileSystem.file.impl` selects this class.
 */
public final class LocalFiles extends ChecksumFs {
  private static final String SCHEME = FsConstants.LOCAL_FS_URI.getScheme();

  /** Constructor that Hadoop calls by reflection. */
  public LocalFiles(URI uri, Configuration configuration) throws IOException, URISyntaxException {
    super(new LocalFilesAdapter(uri, configuration));
  }

  private static final class LocalFilesAdapter extends DelegateToFileSystem {
    LocalFilesAdapter(URI uri, Configuration configuration) throws IOException, URISyntaxException {
      super(uri, new ProcessFreeFileSystem(), configuration, SCHEME, false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1; // local files have no port
    }

    @Override
    public boolean isValidName(String name) {
      return true; // the operating system rejects invalid names itself
    }
  }

  private static final class ProcessFreeFileSystem extends RawLocalFileSystem {
    private static final String MODE_ATTRIBUTE = "unix:mode";
    private static final int SETUID_AND_SETGID = 06000;

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      try {
        java.nio.file.Path file = pathToFile(path).toPath();
        int idBits = 0; // like chmod, keep a directory's setuid and setgid bits
        if (Files.isDirectory(file)) {
          idBits = (Integer) Files.getAttribute(file, MODE_ATTRIBUTE) & SETUID_AND_SETGID;
        }
        Files.setAttribute(file, MODE_ATTRIBUTE, permission.toShort() | idBits);
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
