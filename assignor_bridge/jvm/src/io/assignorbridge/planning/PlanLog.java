package io.assignorbridge.planning;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Appends what the planner was asked and answered to a file (`assignor.planLog`), a JSON line a
 * planned batch, for `assignor plan`. A full file becomes `FILE.1`. Streams may share a file. A line
 * that cannot be written is a warning, once, and never a failed batch.
 */
final class PlanLog {
  private static final Logger LOG = LoggerFactory.getLogger(PlanLog.class);
  private static final long MOST_BYTES = 64L * 1024 * 1024;

  private final String file;
  private boolean failing;

  PlanLog(String file) {
    this.file = file;
  }

  /** What is behind a plan in its line: how far the batch was asked to go, and goes. */
  static String admission(String request, String answer) {
    return ",\"admission\":{\"request\":" + request + ",\"answer\":" + answer + "}";
  }

  /** With the admission of the batch; empty where there was none. */
  void append(String batch, String snapshot, String plan, String admission) {
    String line =
        "{\"batchId\":%s,\"snapshot\":%s,\"plan\":%s%s}\n"
            .formatted(batch, snapshot, plan, admission);
    try {
      write(line.getBytes(StandardCharsets.UTF_8), Path.of(file));
      failing = false;
    } catch (IOException | RuntimeException e) { // the latter for a name that is no path here
      if (!failing) {
        LOG.warn(
            "assignor-bridge could not write its plan log {} (the query continues): {}",
            file,
            e.toString());
      }
      failing = true;
    }
  }

  /** One stream at a time, whatever file it writes to: lines must stay whole. */
  private static synchronized void write(byte[] line, Path file) throws IOException {
    if (Files.exists(file) && !Files.isRegularFile(file)) {
      throw new IOException("it is not a regular file");
    }
    if (Files.exists(file) && Files.size(file) + line.length > MOST_BYTES) {
      Path full = file.resolveSibling(file.getFileName() + ".1");
      Files.move(file, full, StandardCopyOption.REPLACE_EXISTING);
    }
    if (!Files.exists(file)) {
      var ownerOnly = PosixFilePermissions.fromString("rw-------");
      Files.createFile(file, PosixFilePermissions.asFileAttribute(ownerOnly));
    }
    Files.write(file, line, StandardOpenOption.APPEND);
  }
}
