package io.assignorbridge.delta;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.LogSegment;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.util.FileNames$;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Begins a transaction at the commit that this driver knows as the table's last, where that still is
 * the last. To learn it, Delta (up to 4.4) lists the table's log before each transaction, and on a
 * local disk, HDFS and most object stores that lists all of it: two files a commit, for 30 days. Two
 * small questions answer it, too: is the commit's file the one that it was, and is there none of the
 * next version? Delta lists behind a checkpoint of the log, so that it finds that.
 *
 * <p>As with Delta's listing another writer may commit right behind the answer. Who wins is decided
 * as ever, when the commit's file is made.
 */
final class LastCommit {
  private static final Logger LOG = LoggerFactory.getLogger(LastCommit.class);

  private final DeltaCheckpoints checkpoints;

  /** Of the table that the run writes to; null until Delta has begun a transaction. */
  private DeltaLog log;

  private boolean fits = true;

  LastCommit(DeltaCheckpoints checkpoints) {
    this.checkpoints = checkpoints;
  }

  /** Delta has begun a transaction of the run. */
  OptimisticTransaction begun(OptimisticTransaction transaction) {
    log = transaction.catalogTable().isEmpty() ? transaction.deltaLog() : null;
    return transaction;
  }

  /**
   * Begins one for the table at this path, or returns null where Delta has to list the log. It must
   * be asked for the transaction of the append: Delta begins that one first, and without a catalog.
   */
  OptimisticTransaction begin(String path) {
    if (log == null || !fits) {
      return null;
    }
    try {
      Snapshot last = log.unsafeVolatileSnapshot();
      return isLogOf(path) && last.version() >= 0 && isNewest(last)
          ? new OptimisticTransaction(log, Option.empty(), last)
          : null;
    } catch (IOException | RuntimeException error) {
      return null; // Delta's own way says it, if it fails there, too
    } catch (LinkageError error) {
      fits = false;
      LOG.info("the log of the Delta table is listed for each batch: this Delta is another", error);
      return null;
    }
  }

  /** Delta takes the log of a path from its cache, in which another may be by now. */
  private boolean isLogOf(String path) {
    return DeltaLog.forTable(SparkSession.active(), new Path(path), log.options()) == log;
  }

  private boolean isNewest(Snapshot last) throws IOException {
    LogSegment segment = last.logSegment();
    int interval = log.checkpointInterval(last.metadata());
    long checkpoint = segment.checkpointProvider().version(); // -1 where there is none
    if (last.isCatalogOwned() // its commits can be elsewhere
        || last.tableCommitCoordinatorClientOpt().isDefined()
        || segment.deltas().isEmpty()
        || last.version() / interval > checkpoint / interval && checkpoints.mayBeThere()) {
      return false;
    }
    FileStatus commit = segment.deltas().last();
    Path next = FileNames$.MODULE$.unsafeDeltaFile(log.logPath(), last.version() + 1);
    FileSystem files = log.logPath().getFileSystem(log.newDeltaHadoopConf());
    return isAsItWas(commit, files) && !files.exists(next);
  }

  private static boolean isAsItWas(FileStatus file, FileSystem files) throws IOException {
    try {
      FileStatus now = files.getFileStatus(file.getPath());
      return now.getLen() == file.getLen()
          && now.getModificationTime() == file.getModificationTime();
    } catch (FileNotFoundException error) {
      return false;
    }
  }
}
