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
 * Appends the planner's requests and answers to a file (`assignor.planLog`) as one JSON line per
 * planned batch, for `assignor plan`. A full file is renamed to `FILE.1`. Streams of a driver can
 * share a file. A failure to write never stops a query; only the first one in a row is logged.
 */
final class PlanLog {
  private static final Logger LOG = LoggerFactory.getLogger(PlanLog.class);
  private static final long MAX_BYTES = 64L * 1024 * 1024;

  private final String file;
  private boolean isFailing;

  PlanLog(String file) {
    this.file = file;
  }

  /** Formats the request and answer for a limited batch, as a field of the plan's line. */
  static String formatAdmission(String request, String answer) {
    return ",\"admission\":{\"request\":" + request + ",\"answer\":" + answer + "}";
  }

  /** Appends a plan; `admission` is empty if the batch was not limited. */
  void append(String batchId, String snapshot, String plan, String admission) {
    String line =
        "{\"batchId\":%s,\"snapshot\":%s,\"plan\":%s%s}\n"
            .formatted(batchId, snapshot, plan, admission);
    try {
      write(line.getBytes(StandardCharsets.UTF_8), Path.of(file));
      isFailing = false;
    } catch (IOException | RuntimeException e) { // such as InvalidPathException
      if (!isFailing) {
        LOG.warn(
            "assignor-bridge could not write its plan log {} (the query continues): {}",
            file, e.toString());
      }
      isFailing = true;
    }
  }

  /** Writes a line under a lock, so that this driver's streams can share a file. */
  private static synchronized void write(byte[] line, Path file) throws IOException {
    if (Files.exists(file) && !Files.isRegularFile(file)) {
      throw new IOException("it is not a regular file");
    }
    if (Files.exists(file) && Files.size(file) + line.length > MAX_BYTES) {
      Path oldFile = file.resolveSibling(file.getFileName() + ".1");
      Files.move(file, oldFile, StandardCopyOption.REPLACE_EXISTING);
    }
    if (!Files.exists(file)) {
      var ownerOnlyPermissions = PosixFilePermissions.fromString("rw-------");
      Files.createFile(file, PosixFilePermissions.asFileAttribute(ownerOnlyPermissions));
    }
    Files.write(file, line, StandardOpenOption.APPEND);
  }
}
