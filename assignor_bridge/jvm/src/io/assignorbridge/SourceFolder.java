package io.assignorbridge;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Where one source keeps its things in a checkpoint, `<checkpoint>/sources/<n>`: its identity. */
record SourceFolder(String metadataPath, Configuration configuration) {
  private static final Logger LOG = LoggerFactory.getLogger(SourceFolder.class);

  /** In a folder of its own: Spark reads files with numeric names beside it. */
  StateFiles states() {
    return new StateFiles(
        new CheckpointFolder(new Path(metadataPath, "assignments"), configuration));
  }

  /** The last batch that Spark's commit log holds; 0 when that cannot be told. */
  long lastCommittedBatch() {
    Path log = new Path(new Path(metadataPath).getParent().getParent(), "commits");
    long last = 0;
    try {
      for (FileStatus file : new CheckpointFolder(log, configuration).list()) {
        String name = file.getPath().getName();
        if (name.matches("\\d{1,18}")) {
          last = Math.max(last, Long.parseLong(name));
        }
      }
    } catch (IOException e) {
      LOG.debug("the commit log {} cannot be listed", log, e);
    }
    return last;
  }
}
