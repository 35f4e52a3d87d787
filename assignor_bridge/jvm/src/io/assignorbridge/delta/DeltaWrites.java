package io.assignorbridge.delta;

import io.delta.tables.DeltaMergeBuilder;
import java.io.FileNotFoundException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.delta.CommittedTransaction;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.TransactionExecutionObserver;
import org.apache.spark.sql.delta.TransactionExecutionObserver$;
import org.apache.spark.sql.delta.VersionChecksum;
import org.apache.spark.sql.delta.actions.SetTransaction;
import org.apache.spark.sql.delta.hooks.CheckpointHook$;
import org.apache.spark.sql.delta.hooks.PostCommitHook;
import org.apache.spark.sql.execution.QueryExecution;
import scala.Function0;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * Writes the batches of one run to a Delta table as Delta does, with four differences:
 *
 * <ol>
 *   <li>To find the query's last batch, Delta (up to 4.4) runs a Spark job over the table's log in
 *       each batch. From the second batch on, this class reads it from the last commit's checksum.
 *   <li>Batches do not wait for checkpoints of the log ({@link DeltaCheckpoints}).
 *   <li>Before an append by path, Delta need not list the table's log ({@link LastCommit}).
 *   <li>Each commit records its batch's ranges, record count, and checksum for `assignor audit`.
 * </ol>
 *
 * <p>This class uses internal interfaces of Delta. If one differs, the methods return the error.
 * The caller then writes again in the normal way, and Delta skips a batch that the table already has.
 */
public final class DeltaWrites {
  /**
   * Placeholder for the ranges and counts in a commit's user metadata. Counts are known only at
   * commit. Ranges are long, and Spark copies the metadata, a session setting, into each task.
   */
  private static final String PLACEHOLDER = "\"ranges\":null,\"counted\":{}";

  /** Columns of the metrics that each source of `assignor run` observes (records.py). */
  private static final List<String> OBSERVED_COLUMNS =
      List.of("records", "bad_records", "tombstones", "checksum");

  private final DeltaCheckpoints checkpoints = new DeltaCheckpoints();
  private final LastCommit lastCommit = new LastCommit(checkpoints);

  /** False for the first batch: Delta looks it up, because an earlier run may have written it. */
  private boolean hasWritten;

  /**
   * Appends the writer's rows to the table at `path`, or to `table` if the path is null. Returns
   * null, or the error if this version of Delta is incompatible.
   *
   * @param execution the batch's query, whose observed metrics count its records; null for no counts
   * @param ranges the batch's ranges as JSON, or null if unknown
   */
  public String append(
      DataFrameWriter<?> writer,
      String path,
      String table,
      QueryExecution execution,
      String ranges) {
    return writeObserved(
        () -> {
          if (path != null) {
            writer.save(path);
          } else {
            writer.saveAsTable(table);
          }
        },
        path,
        new Origin(execution, ranges));
  }

  /** Executes a merge; see {@link #append}. */
  public String merge(DeltaMergeBuilder merge, QueryExecution execution, String ranges) {
    return writeObserved(merge::execute, null, new Origin(execution, ranges));
  }

  /** Runs a write as {@link #append} documents; `path` is null for a table's name or a merge. */
  private String writeObserved(Runnable write, String path, Origin origin) {
    try {
      new FirstTransaction(checkpoints, lastCommit, path, hasWritten, origin).runObserved(write);
      hasWritten = true;
      return null;
    } catch (LinkageError error) {
      return error.toString();
    }
  }

  /** At the end of the run, waits for a pending checkpoint. */
  public void finish() {
    checkpoints.finish();
  }

  /** The ranges and counts of a batch for `assignor audit`; errors here never fail the write. */
  private record Origin(QueryExecution execution, String ranges) {
    String fillPlaceholder(String text) {
      int index = text.lastIndexOf(PLACEHOLDER); // the user's own text comes before it
      if (index < 0) {
        return text;
      }
      String fields = "\"ranges\":" + ranges + ",\"counted\":{" + formatCounts() + "}";
      return text.substring(0, index) + fields + text.substring(index + PLACEHOLDER.length());
    }

    private String formatCounts() {
      try {
        return execution == null ? "" : formatObservedMetrics();
      } catch (RuntimeException | LinkageError error) { // an incompatible Spark
        return "";
      }
    }

    /** Returns all sources' total records and combined checksum as JSON; "" if none is observed. */
    private String formatObservedMetrics() {
      boolean hasMetrics = false;
      long records = 0;
      long checksum = 0;
      for (Iterator<Row> rows = execution.observedMetrics().valuesIterator(); rows.hasNext(); ) {
        Row row = rows.next();
        if (row.schema() != null && OBSERVED_COLUMNS.equals(List.of(row.schema().fieldNames()))) {
          hasMetrics = true;
          records += row.getLong(0);
          checksum ^= row.isNullAt(3) ? 0 : row.getLong(3);
        }
      }
      return hasMetrics
          ? String.format(Locale.ROOT, "\"records\":%d,\"checksum\":\"%016x\"", records, checksum)
          : "";
    }
  }

  /** A transaction with the differences 1, 2, and 4 that {@link DeltaWrites} lists. */
  private static final class ChecksumTransaction extends OptimisticTransaction {
    private final DeltaCheckpoints checkpoints;
    private final boolean readsChecksum;
    private final Origin origin;
    private boolean isCheckpointDue;

    ChecksumTransaction(
        OptimisticTransaction transaction,
        DeltaCheckpoints checkpoints,
        boolean readsChecksum,
        Origin origin) {
      super(transaction.deltaLog(), transaction.catalogTable(), transaction.snapshot());
      this.checkpoints = checkpoints;
      this.readsChecksum = readsChecksum;
      this.origin = origin;
    }

    /** Fills in the ranges and counts: Delta calls this at commit, when the rows are written. */
    @Override
    public Option<String> getUserMetadata(DeltaOperations.Operation operation) {
      Option<String> text = super.getUserMetadata(operation);
      return text.isEmpty() ? text : Option.apply(origin.fillPlaceholder(text.get()));
    }

    /** Returns false if a background checkpoint is due; Delta then skips statistics of the log. */
    @Override
    public boolean isCheckpointNeeded(long version, Snapshot committedSnapshot) {
      boolean isNeeded = super.isCheckpointNeeded(version, committedSnapshot);
      isCheckpointDue = isNeeded && checkpoints.canWrite();
      return isNeeded && !isCheckpointDue;
    }

    @Override
    public void runPostCommitHook(PostCommitHook hook, CommittedTransaction committedTransaction) {
      if (hook == CheckpointHook$.MODULE$ && isCheckpointDue) {
        checkpoints.write(
            () ->
                committedTransaction
                    .deltaLog()
                    .checkpoint(
                        committedTransaction.postCommitSnapshot(),
                        committedTransaction.catalogTable()));
      } else {
        super.runPostCommitHook(hook, committedTransaction);
      }
    }

    @Override
    public long txnVersion(String id) {
      Option<VersionChecksum> checksum = snapshot().checksumOpt();
      // With a retention, Delta drops transaction ids by age, which the checksum does not record.
      if (!readsChecksum
          || checksum.isEmpty()
          || snapshot().minSetTransactionRetentionTimestamp().isDefined()) {
        return super.txnVersion(id);
      }
      Option<Seq<SetTransaction>> setTransactions = checksum.get().setTransactions();
      if (setTransactions.isDefined()) {
        for (Iterator<SetTransaction> it = setTransactions.get().iterator(); it.hasNext(); ) {
          SetTransaction action = it.next();
          if (action.appId().equals(id)) {
            readTxn().addOne(id); // so that a commit by another driver under this id conflicts
            return action.version();
          }
        }
      }
      return super.txnVersion(id);
    }
  }

  /** Replaces the thread's first transaction, unless of a subclass; fails if the table is gone. */
  private static final class FirstTransaction implements TransactionExecutionObserver {
    private static final TransactionExecutionObserver$ THREAD_OBSERVER =
        TransactionExecutionObserver$.MODULE$;
    private final TransactionExecutionObserver previousObserver =
        (TransactionExecutionObserver) THREAD_OBSERVER.getObserver();
    private final DeltaCheckpoints checkpoints;
    private final LastCommit lastCommit;
    private final String path;
    private final boolean readsChecksum;
    private final Origin origin;

    FirstTransaction(
        DeltaCheckpoints checkpoints,
        LastCommit lastCommit,
        String path,
        boolean readsChecksum,
        Origin origin) {
      this.checkpoints = checkpoints;
      this.lastCommit = lastCommit;
      this.path = path;
      this.readsChecksum = readsChecksum;
      this.origin = origin;
    }

    void runObserved(Runnable write) {
      THREAD_OBSERVER.setObserver(this);
      try {
        write.run();
      } finally {
        THREAD_OBSERVER.setObserver(previousObserver);
      }
    }

    @Override
    public OptimisticTransaction startingTransaction(Function0<OptimisticTransaction> start) {
      THREAD_OBSERVER.setObserver(previousObserver);
      OptimisticTransaction transaction = previousObserver.startingTransaction(() -> begin(start));
      if (transaction.snapshot().version() < 0) { // Delta would create a new table
        String problem = "the table at " + transaction.deltaLog().dataPath() + " no longer exists";
        throw new UncheckedIOException(new FileNotFoundException(problem));
      }
      if (transaction.getClass() != OptimisticTransaction.class) {
        return transaction;
      }
      return new ChecksumTransaction(transaction, checkpoints, readsChecksum, origin);
    }

    private OptimisticTransaction begin(Function0<OptimisticTransaction> start) {
      OptimisticTransaction transaction = path == null ? null : lastCommit.begin(path);
      return transaction == null ? lastCommit.remember(start.apply()) : transaction;
    }

    @Override
    public TransactionExecutionObserver createChild() {
      return previousObserver;
    }

    @Override
    public <T> T preparingCommit(Function0<T> prepare) {
      return previousObserver.preparingCommit(prepare);
    }

    @Override
    public void beginDoCommit() {}
    @Override
    public void beginBackfill() {}
    @Override
    public void beginPostCommit() {}
    @Override
    public void transactionCommitted() {}
    @Override
    public void transactionAborted() {}

    @Override
    public Option<TransactionExecutionObserver> nextObserver() {
      return Option.empty();
    }

    @Override
    public void nextObserver_$eq(Option<TransactionExecutionObserver> next) {}
  }
}
