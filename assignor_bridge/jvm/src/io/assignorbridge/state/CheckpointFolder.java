package io.assignorbridge.state;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSError;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.Path;

/**
 * A folder of small text files beside a checkpoint, through Spark's own CheckpointFileManager: where
 * Spark can keep its offsets, these files can be kept, and they appear whole or not at all. The
 * manager moved to another package in Spark 4.1, so it is called by name. Whatever goes wrong is an
 * IOException.
 */
public final class CheckpointFolder {
  private static final String[] MANAGERS = {
    "org.apache.spark.sql.execution.streaming.CheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager",
  };

  /** Each byte is one character: a file that is no text of ours is read as it is, and refused. */
  private static final Charset BYTES = StandardCharsets.ISO_8859_1;

  /** No file of ours comes near; a foreign one must not fill the memory. */
  private static final int MOST_BYTES = 32 * 1024 * 1024;

  /** Hadoop's setting: which class writes local files, for those who ask by FileContext. */
  private static final String LOCAL_FILES = "fs.AbstractFileSystem.file.impl";

  private static final String HADOOPS = "org.apache.hadoop.fs.local.LocalFs";
  private static final String OURS = "io.assignorbridge.LocalFiles"; // starts no processes

  private final Path folder;
  private final Configuration configuration;
  private Class<?> api;
  private Object manager;

  public CheckpointFolder(Path folder, Configuration configuration) {
    this.folder = folder;
    this.configuration = configure(folder, configuration);
  }

  /** Has local files written without processes, unless another class is configured for them. */
  static Configuration configure(Path folder, Configuration configuration) {
    if (!FsConstants.LOCAL_FS_URI.getScheme().equals(folder.toUri().getScheme())
        || !HADOOPS.equals(configuration.get(LOCAL_FILES))) {
      return configuration;
    }
    Configuration own = new Configuration(configuration);
    own.setClassLoader(CheckpointFolder.class.getClassLoader());
    own.set(LOCAL_FILES, OURS);
    return own;
  }

  /** All entries; none when the folder is not there. */
  synchronized FileStatus[] list() throws IOException {
    try {
      return (FileStatus[]) call("list", folder);
    } catch (FileNotFoundException none) {
      return new FileStatus[0];
    }
  }

  synchronized String read(String name) throws IOException {
    try (FSDataInputStream in = (FSDataInputStream) call("open", new Path(folder, name))) {
      byte[] bytes = in.readNBytes(MOST_BYTES + 1);
      if (bytes.length > MOST_BYTES) {
        throw new IOException("it has more than " + MOST_BYTES + " bytes");
      }
      return new String(bytes, BYTES);
    } catch (FSError e) {
      throw asIoException(e);
    }
  }

  /** Writes a file that must not be there yet; after a failure it is not. */
  public synchronized void write(String name, String text) throws IOException {
    call("mkdirs", folder);
    Class<?>[] types = {Path.class, boolean.class};
    FSDataOutputStream out =
        (FSDataOutputStream) call("createAtomic", types, new Path(folder, name), false);
    try {
      out.write(text.getBytes(BYTES));
      out.close();
    } catch (IOException | RuntimeException | FSError e) { // the last for a full disk
      IOException failure = asIoException(e);
      try {
        cancel(out, name);
      } catch (IOException further) {
        failure.addSuppressed(further);
      }
      throw failure;
    }
  }

  public synchronized void delete(String name) throws IOException {
    call("delete", new Path(folder, name));
  }

  @Override
  public String toString() {
    return folder.toString();
  }

  private void cancel(FSDataOutputStream out, String name) throws IOException {
    try {
      api.getMethod("createAtomic", Path.class, boolean.class)
          .getReturnType()
          .getMethod("cancel")
          .invoke(out);
    } catch (ReflectiveOperationException | RuntimeException e) {
      throw asIoException(e);
    }
    for (FileStatus file : list()) { // once its `close` has failed, `cancel` leaves the file there
      if (file.getPath().getName().startsWith("." + name + ".")) {
        delete(file.getPath().getName());
      }
    }
  }

  private Object call(String method, Path path) throws IOException {
    return call(method, new Class<?>[] {Path.class}, path);
  }

  private Object call(String method, Class<?>[] types, Object... values) throws IOException {
    try {
      if (manager == null) {
        api = managerClass();
        manager =
            api.getMethod("create", Path.class, Configuration.class)
                .invoke(null, folder, configuration);
      }
      return api.getMethod(method, types).invoke(manager, values);
    } catch (InvocationTargetException e) {
      throw asIoException(e.getCause());
    } catch (ReflectiveOperationException | RuntimeException e) {
      throw asIoException(e);
    }
  }

  private static Class<?> managerClass() throws IOException {
    for (String name : MANAGERS) {
      try {
        return Class.forName(name, true, Thread.currentThread().getContextClassLoader());
      } catch (ClassNotFoundException elsewhere) {
        // the other Spark
      }
    }
    throw new IOException("this Spark has no CheckpointFileManager where 4.0 to 4.2 have it");
  }

  private static IOException asIoException(Throwable e) {
    return e instanceof IOException io ? io : new IOException(e.toString(), e);
  }
}
