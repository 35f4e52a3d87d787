package io.assignorbridge.state;

import io.assignorbridge.model.Interruptions;
import io.assignorbridge.model.LatestOnlyExecutor;
import io.assignorbridge.model.PlannerException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The planner's state on disk: `assignments/<number>.v<version>` in the source's metadata folder.
 * A completed batch writes the next number, off the stream's thread; the newest three are kept.
 * Files of a newer version than the planner's stay. Failures are logged once and never reach the
 * query: a lost state costs stickiness, never data.
 */
public final class StateFiles {
  private static final Logger LOG = LoggerFactory.getLogger(StateFiles.class);
  private static final Pattern NAME = Pattern.compile("(\\d{1,18})\\.v(\\d{1,9})");
  private static final Pattern LEFTOVER = Pattern.compile("\\.\\d+\\.v\\d+\\..*\\.tmp");
  private static final int KEPT = 3;
  private static final long LAST_WRITE_MS = 5_000;

  private record State(String text, int version) {}

  private final CheckpointFolder folder;
  private final LatestOnlyExecutor<State> writer =
      new LatestOnlyExecutor<>("assignor-state", this::write);

  // On the stream's thread.
  private String lastSaved;

  // Filled by the listing before the first plan, or before the first write if that failed; then on
  // the writer's thread only.
  private final TreeMap<Long, String> prunable = new TreeMap<>();
  private final Set<String> leftovers = new HashSet<>();
  private long newest = -1;
  private boolean listed; // until then, newer states than ours may be there
  private boolean failing;
  private boolean keepsOld; // what could not be deleted

  /** In a folder of its own below the source's: Spark reads files with numeric names there. */
  public StateFiles(String metadataPath, Configuration configuration) {
    folder = new CheckpointFolder(new Path(metadataPath, "assignments"), configuration);
  }

  /** Returns why a state cannot be used; null when it can. */
  public interface Check {
    String whyNot(String state) throws PlannerException, InterruptedException;
  }

  /**
   * Returns the newest stored state that passes the check; null without one. One warning names what
   * was passed over.
   */
  public String restore(int version, Check check) throws PlannerException, InterruptedException {
    List<String> unusable = new ArrayList<>();
    String used = null;
    try {
      for (String name : newestFirst(version)) {
        String path = folder + "/" + name;
        try {
          String text = folder.read(name);
          String why = check.whyNot(text);
          if (why == null) {
            lastSaved = text;
            used = name;
            break;
          }
          unusable.add(path + ": " + why);
        } catch (IOException e) {
          unusable.add(path + ": " + reason(e));
        }
      }
    } catch (IOException e) {
      unusable.add(folder + ": " + reason(e));
    }
    if (!unusable.isEmpty()) {
      LOG.warn(
          "assignor-bridge cannot use its stored state and plans {} (partitions may change"
              + " executors; no data is affected): {}",
          used == null ? "without it" : "with the older " + used,
          String.join("; ", unusable));
    }
    return used == null ? null : lastSaved;
  }

  /** Keeps the state of a completed batch if it differs from the last one kept. */
  public void save(String text, int version) {
    if (text != null && !text.equals(lastSaved)) {
      lastSaved = text;
      writer.submit(new State(text, version));
    }
  }

  /** Waits a little for the last write. */
  public void close() {
    writer.finish(LAST_WRITE_MS);
  }

  private Iterable<String> newestFirst(int version) throws IOException {
    TreeMap<Long, String> files = new TreeMap<>(Comparator.reverseOrder());
    FileStatus[] entries = folder.list();
    listed = true;
    for (FileStatus file : entries) {
      String name = file.getPath().getName();
      Matcher parts = NAME.matcher(name);
      if (parts.matches()) {
        long number = Long.parseLong(parts.group(1));
        files.put(number, name);
        newest = Math.max(newest, number);
        if (file.isFile() && Integer.parseInt(parts.group(2)) <= version) {
          prunable.put(number, name);
        }
      } else if (LEFTOVER.matcher(name).matches()) {
        leftovers.add(name); // of a driver that was killed while it wrote
      }
    }
    return files.values();
  }

  /** What went wrong with a file, unless it was the end of the query. */
  private static String reason(IOException e) throws InterruptedException {
    if (Interruptions.isInterruption(e)) {
      throw new InterruptedException(e.toString());
    }
    return e.toString();
  }

  private void write(State state) {
    String target = folder.toString();
    try {
      if (!listed) { // a file below the newest of before would be passed over at the next start
        newestFirst(state.version());
      }
      newest++; // also after a failure: should the name be the trouble, the next batch tries another
      String name = newest + ".v" + state.version();
      target = folder + "/" + name;
      folder.write(name, state.text());
      failing = false;
      prunable.put(newest, name);
      while (prunable.size() > KEPT) {
        delete(prunable.pollFirstEntry().getValue());
      }
      leftovers.forEach(this::delete);
      leftovers.clear();
    } catch (IOException | RuntimeException e) {
      if (!failing) {
        LOG.warn(
            "assignor-bridge could not save its state in {} (after a restart, partitions may"
                + " change executors; no data is affected): {}",
            target,
            e.toString());
      }
      failing = true;
    }
  }

  /** A file that cannot be deleted stays, and does not keep the next ones. */
  private void delete(String old) {
    try {
      folder.delete(old);
    } catch (IOException | RuntimeException e) {
      if (!keepsOld) {
        LOG.warn(
            "assignor-bridge could not delete its old state {}/{} (warned once): {}",
            folder,
            old,
            e.toString());
      }
      keepsOld = true;
    }
  }
}
