package io.assignorbridge;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Where one source keeps its things in a checkpoint, `<checkpoint>/sources/<n>`: its identity. */
record SourceFolder(String metadataPath, Configuration configuration) {
  /** In a folder of its own: Spark reads files with numeric names beside it. */
  StateFiles states() {
    return new StateFiles(
        new CheckpointFolder(new Path(metadataPath, "assignments"), configuration));
  }
}
