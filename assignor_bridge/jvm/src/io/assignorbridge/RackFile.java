package io.assignorbridge;

import java.io.IOException;
import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The racks of hosts in a file on the driver (`assignor.rackFile`), one `HOST=RACK` a line, as Spark's
 * FileBasedTopologyMapper reads it; white space may separate them, as in Hadoop's TableMapping. A file
 * that has changed is read again.
 */
final class RackFile {
  private static final Logger LOG = LoggerFactory.getLogger(RackFile.class);
  private static final int MOST_OF_LINE = 100;

  private final Path file;
  private Map<String, String> racks;
  private FileTime read;
  private String lastFault;

  RackFile(String name) throws PlannerException {
    try {
      file = Path.of(name);
    } catch (InvalidPathException e) { // such as a letter that the driver's locale does not have
      String what = "option 'assignor.rackFile' is no path on this driver: " + e.getMessage();
      throw new PlannerException(what, true, e);
    }
    try {
      read = Files.getLastModifiedTime(file);
      racks = racks();
    } catch (IOException e) {
      throw new PlannerException(fault(e), true, e);
    }
  }

  /** Null for a host that is not in the file. */
  String of(String host) {
    return racks.get(host);
  }

  /** Reads it again if it has changed; what is broken then leaves all as it was. */
  void update() {
    try {
      FileTime changed = Files.getLastModifiedTime(file);
      if (!changed.equals(read)) {
        racks = racks();
        read = changed;
        lastFault = null;
      }
    } catch (IOException e) {
      String fault = fault(e);
      if (!fault.equals(lastFault)) { // a broken file may be in the middle of being written
        LOG.warn("assignor-bridge keeps the racks that it read before (the query goes on): {}", fault);
      }
      lastFault = fault;
    }
  }

  private String fault(IOException e) {
    String why =
        e instanceof NoSuchFileException
            ? "there is no such file on the driver"
            : e instanceof BrokenLine ? e.getMessage() : "it cannot be read (" + e + ")";
    return "option 'assignor.rackFile' is '" + file + "': " + why + "; a line HOST=RACK for each host of"
        + " executors is expected";
  }

  private Map<String, String> racks() throws IOException {
    Map<String, String> all = new HashMap<>();
    List<String> lines = Files.readAllLines(file);
    for (int i = 0; i < lines.size(); i++) {
      Properties entry = new Properties();
      try {
        entry.load(new StringReader(lines.get(i)));
      } catch (IllegalArgumentException e) { // such as \\u without a number
        throw new BrokenLine(i, lines.get(i), "is broken");
      }
      for (String host : entry.stringPropertyNames()) { // none in an empty line or a comment
        String rack = entry.getProperty(host).strip();
        if (host.isEmpty() || rack.isEmpty()) {
          throw new BrokenLine(i, lines.get(i), host.isEmpty() ? "has no host" : "has no rack");
        }
        if (rack.contains("#")) {
          throw new BrokenLine(i, lines.get(i), "has a # behind the rack: comments have their own lines");
        }
        if (host.startsWith("[") && !host.endsWith("]")) {
          throw new BrokenLine(i, lines.get(i), "has a colon in the host: write it as \\:");
        }
        String other = all.putIfAbsent(host, rack);
        if (other != null && !other.equals(rack)) {
          throw new BrokenLine(i, lines.get(i), "contradicts an earlier one, with rack " + other);
        }
      }
    }
    return all;
  }

  private static final class BrokenLine extends IOException {
    private static final long serialVersionUID = 1L;

    BrokenLine(int index, String line, String what) {
      super("line " + (index + 1) + " (" + PlannerException.shortened(line, MOST_OF_LINE) + ") " + what);
    }
  }
}
