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
 * The planner's state on disk, in `assignments/<number>.v<version>` of the source's metadata
 * folder. Another thread writes the state of each completed batch under the next number and keeps
 * the newest three files, and all files with a newer version than the planner's. Only the
 * first failure in a row is logged; none fails the query: a lost state costs stickiness, not data.
 */
public final class StateFiles {
  private static final Logger LOG = LoggerFactory.getLogger(StateFiles.class);
  private static final Pattern FILE_NAME = Pattern.compile("(\\d{1,18})\\.v(\\d{1,9})");
  private static final Pattern LEFTOVER_NAME = Pattern.compile("\\.\\d+\\.v\\d+\\..*\\.tmp");
  private static final int MAX_FILES = 3;
  private static final long CLOSE_TIMEOUT_MS = 5_000;

  private record StoredState(String text, int version) {}

  private final CheckpointFolder folder;
  private final LatestOnlyExecutor<StoredState> writer =
      new LatestOnlyExecutor<>("assignor-state", this::write);
  private String lastSavedText; // used on the stream's thread

  // Filled by the listing before the first plan, or if that failed, before the first write. After
  // that, only the writer's thread uses them.
  private final TreeMap<Long, String> prunableNameByNumber = new TreeMap<>();
  private final Set<String> leftoverNames = new HashSet<>();
  private long newestNumber = -1;
  private boolean isListed; // false while the folder may have newer states than `newestNumber`
  private boolean isFailing;
  private boolean hasWarnedOfDeletion;

  /** Uses a subfolder, because Spark reads files with numeric names in the source's folder. */
  public StateFiles(String metadataPath, Configuration configuration) {
    folder = new CheckpointFolder(new Path(metadataPath, "assignments"), configuration);
  }

  public interface StateCheck {
    /** Returns why the state cannot be used, or null if it can. */
    String findProblem(String state) throws PlannerException, InterruptedException;
  }

  /** Returns the newest stored state that passes the check, or null; warns of skipped states. */
  public String restore(int version, StateCheck check)
      throws PlannerException, InterruptedException {
    List<String> problems = new ArrayList<>();
    String restoredName = null;
    try {
      for (String name : listNewestFirst(version)) {
        String path = folder + "/" + name;
        try {
          String text = folder.read(name);
          String problem = check.findProblem(text);
          if (problem == null) {
            lastSavedText = text;
            restoredName = name;
            break;
          }
          problems.add(path + ": " + problem);
        } catch (IOException e) {
          problems.add(path + ": " + describe(e));
        }
      }
    } catch (IOException e) {
      problems.add(folder + ": " + describe(e));
    }
    if (!problems.isEmpty()) {
      LOG.warn(
          "assignor-bridge cannot use its stored state and plans {} (partitions may change"
              + " executors; no data is affected): {}",
          restoredName == null ? "without it" : "with the older " + restoredName,
          String.join("; ", problems));
    }
    return restoredName == null ? null : lastSavedText;
  }

  /** Saves the state of a completed batch if it has changed since the last save. */
  public void save(String text, int version) {
    if (text != null && !text.equals(lastSavedText)) {
      lastSavedText = text;
      writer.submit(new StoredState(text, version));
    }
  }

  /** Waits up to five seconds for the last write. */
  public void close() {
    writer.finish(CLOSE_TIMEOUT_MS);
  }

  /** Returns the state files' names, newest first, and fills the fields for the writer's thread. */
  private Iterable<String> listNewestFirst(int version) throws IOException {
    TreeMap<Long, String> nameByNumber = new TreeMap<>(Comparator.reverseOrder());
    FileStatus[] entries = folder.list();
    isListed = true;
    for (FileStatus file : entries) {
      String name = file.getPath().getName();
      Matcher parts = FILE_NAME.matcher(name);
      if (parts.matches()) {
        long number = Long.parseLong(parts.group(1));
        nameByNumber.put(number, name);
        newestNumber = Math.max(newestNumber, number);
        if (file.isFile() && Integer.parseInt(parts.group(2)) <= version) {
          prunableNameByNumber.put(number, name);
        }
      } else if (LEFTOVER_NAME.matcher(name).matches()) {
        leftoverNames.add(name); // from a driver that was killed during a write
      }
    }
    return nameByNumber.values();
  }

  /** Describes a file error; throws InterruptedException if the query is ending. */
  private static String describe(IOException e) throws InterruptedException {
    if (Interruptions.isInterruption(e)) {
      throw new InterruptedException(e.toString());
    }
    return e.toString();
  }

  private void write(StoredState state) {
    String targetPath = folder.toString();
    try {
      if (!isListed) { // a number below the previous newest would be ignored at the next start
        listNewestFirst(state.version());
      }
      newestNumber++; // also after a failure, so that the next batch tries another name
      String name = newestNumber + ".v" + state.version();
      targetPath = folder + "/" + name;
      folder.write(name, state.text());
      isFailing = false;
      prunableNameByNumber.put(newestNumber, name);
      while (prunableNameByNumber.size() > MAX_FILES) {
        delete(prunableNameByNumber.pollFirstEntry().getValue());
      }
      leftoverNames.forEach(this::delete);
      leftoverNames.clear();
    } catch (IOException | RuntimeException e) {
      if (!isFailing) {
        LOG.warn(
            "assignor-bridge could not save its state in {} (after a restart, partitions may"
                + " change executors; no data is affected): {}",
            targetPath, e.toString());
      }
      isFailing = true;
    }
  }

  /** Deletes an old file; a file that cannot be deleted does not stop later deletions. */
  private void delete(String name) {
    try {
      folder.delete(name);
    } catch (IOException | RuntimeException e) {
      if (!hasWarnedOfDeletion) {
        LOG.warn(
            "assignor-bridge could not delete its old state {}/{} (logged once): {}",
            folder, name, e.toString());
      }
      hasWarnedOfDeletion = true;
    }
  }
}
