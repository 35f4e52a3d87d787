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
 * Begins a transaction at the last commit that this driver has seen, if it is still the table's
 * last. Delta (up to 4.4) lists the table's log before each transaction. On a local disk, HDFS, and
 * most object stores, this lists the whole log: two files per commit, for 30 days. Two requests are
 * enough instead: the commit's file must be unchanged, and the file of the next version must not
 * exist. After a new checkpoint, Delta lists the log again, to find it.
 *
 * <p>Another writer may commit right after this check, as after Delta's listing. In both cases, the
 * writer that creates the commit's file wins.
 */
final class LastCommit {
  private static final Logger LOG = LoggerFactory.getLogger(LastCommit.class);

  private final DeltaCheckpoints checkpoints;
  private DeltaLog log; // of the run's table; null before a transaction, or for a catalog table
  private boolean isCompatible = true;

  LastCommit(DeltaCheckpoints checkpoints) {
    this.checkpoints = checkpoints;
  }

  /** Stores the transaction's log (null for a catalog table), and returns the transaction. */
  OptimisticTransaction remember(OptimisticTransaction transaction) {
    log = transaction.catalogTable().isEmpty() ? transaction.deltaLog() : null;
    return transaction;
  }

  /**
   * Begins a transaction for the table at this path, or returns null if Delta has to list the log.
   * Call it only for an append, whose first transaction Delta begins without a catalog.
   */
  OptimisticTransaction begin(String path) {
    if (log == null || !isCompatible) {
      return null;
    }
    try {
      Snapshot lastSnapshot = log.unsafeVolatileSnapshot();
      return isLogOf(path) && lastSnapshot.version() >= 0 && isNewest(lastSnapshot)
          ? new OptimisticTransaction(log, Option.empty(), lastSnapshot)
          : null;
    } catch (IOException | RuntimeException error) {
      return null; // if its own listing fails as well, Delta reports the error
    } catch (LinkageError error) {
      isCompatible = false;
      LOG.info("with this Delta version, each append lists the table's log (slower)", error);
      return null;
    }
  }

  /** Returns whether the log is still the one in Delta's cache, which may have replaced it. */
  private boolean isLogOf(String path) {
    return DeltaLog.forTable(SparkSession.active(), new Path(path), log.options()) == log;
  }

  /** Returns false if the table may have a newer commit or checkpoint. */
  private boolean isNewest(Snapshot lastSnapshot) throws IOException {
    LogSegment segment = lastSnapshot.logSegment();
    int commitsPerCheckpoint = log.checkpointInterval(lastSnapshot.metadata());
    long checkpointVersion = segment.checkpointProvider().version(); // -1 without a checkpoint
    if (lastSnapshot.isCatalogOwned() // the catalog may have newer commits
        || lastSnapshot.tableCommitCoordinatorClientOpt().isDefined()
        || segment.deltas().isEmpty()
        || lastSnapshot.version() / commitsPerCheckpoint > checkpointVersion / commitsPerCheckpoint
            && checkpoints.mayHaveNewCheckpoint()) {
      return false;
    }
    FileStatus commitFile = segment.deltas().last();
    Path nextFile = FileNames$.MODULE$.unsafeDeltaFile(log.logPath(), lastSnapshot.version() + 1);
    FileSystem fileSystem = log.logPath().getFileSystem(log.newDeltaHadoopConf());
    return isUnchanged(commitFile, fileSystem) && !fileSystem.exists(nextFile);
  }

  private static boolean isUnchanged(FileStatus file, FileSystem fileSystem) throws IOException {
    try {
      FileStatus currentStatus = fileSystem.getFileStatus(file.getPath());
      return currentStatus.getLen() == file.getLen()
          && currentStatus.getModificationTime() == file.getModificationTime();
    } catch (FileNotFoundException error) {
      return false;
    }
  }
}
