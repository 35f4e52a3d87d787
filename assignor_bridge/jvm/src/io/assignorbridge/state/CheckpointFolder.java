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
 * A folder of small text files next to a checkpoint. Spark's own CheckpointFileManager writes them,
 * so every file system that can hold Spark's offsets can hold them, and each write is atomic. The
 * manager is called by reflection, because Spark 4.1 moved it. All errors are IOExceptions.
 */
public final class CheckpointFolder {
  private static final String[] MANAGERS = {
    "org.apache.spark.sql.execution.streaming.CheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager",
  };

  /** One character per byte, so that a foreign file can be read, and then rejected. */
  private static final Charset ONE_BYTE_CHARSET = StandardCharsets.ISO_8859_1;

  /** Limit that keeps foreign files from filling the memory; our own files are far smaller. */
  private static final int MAX_BYTES = 32 * 1024 * 1024;

  /** Hadoop's setting for the class that writes local files through FileContext. */
  private static final String LOCAL_FILES_SETTING = "fs.AbstractFileSystem.file.impl";
  private static final String HADOOP_CLASS = "org.apache.hadoop.fs.local.LocalFs";
  private static final String OUR_CLASS = "io.assignorbridge.LocalFiles"; // starts no processes

  private final Path folder;
  private final Configuration configuration;
  private Class<?> managerClass;
  private Object manager;

  public CheckpointFolder(Path folder, Configuration configuration) {
    this.folder = folder;
    this.configuration = configure(folder, configuration);
  }

  /** Returns the configuration; for a local folder, with our class unless the user set another. */
  static Configuration configure(Path folder, Configuration configuration) {
    if (!FsConstants.LOCAL_FS_URI.getScheme().equals(folder.toUri().getScheme())
        || !HADOOP_CLASS.equals(configuration.get(LOCAL_FILES_SETTING))) {
      return configuration;
    }
    Configuration copy = new Configuration(configuration);
    copy.setClassLoader(CheckpointFolder.class.getClassLoader());
    copy.set(LOCAL_FILES_SETTING, OUR_CLASS);
    return copy;
  }

  /** Returns all entries; none if the folder does not exist. */
  synchronized FileStatus[] list() throws IOException {
    try {
      return (FileStatus[]) call("list", folder);
    } catch (FileNotFoundException e) {
      return new FileStatus[0];
    }
  }

  synchronized String read(String name) throws IOException {
    try (FSDataInputStream in = (FSDataInputStream) call("open", new Path(folder, name))) {
      byte[] bytes = in.readNBytes(MAX_BYTES + 1);
      if (bytes.length > MAX_BYTES) {
        throw new IOException("the file has more than " + MAX_BYTES + " bytes");
      }
      return new String(bytes, ONE_BYTE_CHARSET);
    } catch (FSError e) {
      throw toIoException(e);
    }
  }

  /** Writes a file that must not exist yet; a failed write leaves no file. */
  public synchronized void write(String name, String text) throws IOException {
    call("mkdirs", folder);
    Class<?>[] parameterTypes = {Path.class, boolean.class};
    FSDataOutputStream out =
        (FSDataOutputStream) call("createAtomic", parameterTypes, new Path(folder, name), false);
    try {
      out.write(text.getBytes(ONE_BYTE_CHARSET));
      out.close();
    } catch (IOException | RuntimeException | FSError e) { // FSError: the disk is full
      IOException failure = toIoException(e);
      try {
        cancel(out, name);
      } catch (IOException cancelFailure) {
        failure.addSuppressed(cancelFailure);
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
      managerClass.getMethod("createAtomic", Path.class, boolean.class)
          .getReturnType()
          .getMethod("cancel")
          .invoke(out);
    } catch (ReflectiveOperationException | RuntimeException e) {
      throw toIoException(e);
    }
    for (FileStatus file : list()) { // `cancel` leaves the file if `close` has failed
      if (file.getPath().getName().startsWith("." + name + ".")) {
        delete(file.getPath().getName());
      }
    }
  }

  private Object call(String method, Path path) throws IOException {
    return call(method, new Class<?>[] {Path.class}, path);
  }

  private Object call(String method, Class<?>[] parameterTypes, Object... arguments)
      throws IOException {
    try {
      if (manager == null) {
        managerClass = loadManagerClass();
        manager =
            managerClass.getMethod("create", Path.class, Configuration.class)
                .invoke(null, folder, configuration);
      }
      return managerClass.getMethod(method, parameterTypes).invoke(manager, arguments);
    } catch (InvocationTargetException e) {
      throw toIoException(e.getCause());
    } catch (ReflectiveOperationException | RuntimeException e) {
      throw toIoException(e);
    }
  }

  private static Class<?> loadManagerClass() throws IOException {
    for (String name : MANAGERS) {
      try {
        return Class.forName(name, true, Thread.currentThread().getContextClassLoader());
      } catch (ClassNotFoundException e) {
        // another Spark version's package
      }
    }
    throw new IOException(
        "this Spark version has no CheckpointFileManager in the packages where Spark 4.0 to 4.2 have it:"
            + " use one of these versions");
  }

  private static IOException toIoException(Throwable e) {
    return e instanceof IOException io ? io : new IOException(e.toString(), e);
  }
}
