package io.assignorbridge.state;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordingFile;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Does the same in two folders, by Hadoop's own local file system and by ours. Prints for each what
 * came of every step, and as its last line the number of processes that were started.
 */
public final class LocalFilesChecks {
  private final Path folder;
  private final FileContext files;

  private LocalFilesChecks(Path folder, Configuration configuration) throws IOException {
    this.folder = folder;
    files = FileContext.getFileContext(folder.toUri(), configuration);
  }

  public static void main(String[] folders) throws Exception {
    Configuration hadoops = new Configuration();
    hadoops.set("fs.permissions.umask-mode", "027");
    for (boolean ours : new boolean[] {false, true}) {
      Path folder = new Path("file:" + folders[ours ? 1 : 0]);
      Configuration configuration = ours ? CheckpointFolder.configure(folder, hadoops) : hadoops;
      LocalFilesChecks checks = new LocalFilesChecks(folder, configuration);
      System.out.println((ours ? "ours" : "hadoop's") + ": " + checks.outcomes());
    }
    Configuration chosen = new Configuration(hadoops);
    chosen.set("fs.AbstractFileSystem.file.impl", "somebody.Elses");
    System.out.println("left alone: " + (CheckpointFolder.configure(new Path("file:/x"), chosen) == chosen
        && CheckpointFolder.configure(new Path("hdfs://host/x"), hadoops) == hadoops));
  }

  private List<String> outcomes() throws Exception {
    List<String> outcomes = new ArrayList<>();
    try (Recording recording = new Recording()) {
      recording.enable("jdk.ProcessStart");
      recording.start();
      files.mkdir(new Path(folder, "a/b"), FsPermission.getDirDefault(), true);
      write("a/b/.0.tmp", "one");
      outcomes.add(attempt("rename", () -> files.rename(at("a/b/.0.tmp"), at("a/b/0"))));
      write("a/b/.1.tmp", "two");
      outcomes.add(attempt("rename on", () -> files.rename(at("a/b/.1.tmp"), at("a/b/0"))));
      outcomes.add(read("a/b/0"));
      Rename over = Rename.OVERWRITE;
      outcomes.add(attempt("over", () -> files.rename(at("a/b/.1.tmp"), at("a/b/0"), over)));
      outcomes.add(read("a/b/0"));
      Files.createSymbolicLink(Paths.get(at("link").toUri()), Paths.get("a"));
      write("link/b/2", "three");
      outcomes.add(read("a/b/2"));
      outcomes.add(attempt("link", () -> files.rename(at("link"), at("renamed"))));
      outcomes.add(attempt("gone", () -> files.rename(at("gone"), at("here"))));
      outcomes.add(attempt("delete", () -> files.delete(at("a/b/none"), false)));
      files.setPermission(at("a"), new FsPermission((short) 01777));
      recording.stop();
      java.nio.file.Path events = Files.createTempFile("processes", ".jfr");
      recording.dump(events);
      outcomes.add("processes " + RecordingFile.readAllEvents(events).size());
      Files.delete(events);
    }
    return outcomes;
  }

  private Path at(String name) {
    return new Path(folder, name);
  }

  private void write(String name, String text) throws IOException {
    EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE);
    try (FSDataOutputStream out = files.create(at(name), flags)) {
      out.write(text.getBytes(StandardCharsets.UTF_8));
    }
  }

  private String read(String name) throws IOException {
    try (FSDataInputStream in = files.open(at(name))) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private interface Step {
    void run() throws IOException;
  }

  private static String attempt(String what, Step step) {
    try {
      step.run();
      return what + " ok";
    } catch (IOException e) {
      return what + " " + e.getClass().getSimpleName();
    }
  }
}
