package io.assignorbridge;

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
import org.apache.hadoop.fs.Path;

/**
 * A folder of small text files beside a checkpoint, through Spark's own CheckpointFileManager: where
 * Spark can keep its offsets, these files can be kept, and they appear whole or not at all. The
 * manager moved to another package in Spark 4.1, so it is called by name. Whatever goes wrong is an
 * IOException.
 */
final class CheckpointFolder {
  private static final String[] MANAGERS = {
    "org.apache.spark.sql.execution.streaming.CheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager",
  };

  /** Each byte is one character: a file that is no text of ours is read as it is, and refused. */
  private static final Charset BYTES = StandardCharsets.ISO_8859_1;

  /** No file of ours comes near; a foreign one must not fill the memory. */
  private static final int MOST_BYTES = 32 * 1024 * 1024;

  private final Path folder;
  private final Configuration configuration;
  private Class<?> api;
  private Object manager;

  CheckpointFolder(Path folder, Configuration configuration) {
    this.folder = folder;
    this.configuration = LocalFiles.configure(folder, configuration);
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
  synchronized void write(String name, String text) throws IOException {
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

  synchronized void delete(String name) throws IOException {
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
