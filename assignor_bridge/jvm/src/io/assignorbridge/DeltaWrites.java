package io.assignorbridge;

import io.delta.tables.DeltaMergeBuilder;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.delta.CommittedTransaction;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.MaintenanceOperation;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.TransactionExecutionObserver;
import org.apache.spark.sql.delta.TransactionExecutionObserver$;
import org.apache.spark.sql.delta.VersionChecksum;
import org.apache.spark.sql.delta.actions.SetTransaction;
import org.apache.spark.sql.delta.hooks.CheckpointHook$;
import org.apache.spark.sql.delta.hooks.PostCommitHook;
import scala.Function0;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * Writes the batches of one run to a Delta table as Delta does, but for two things. Which batch did
 * this query write last? Delta (up to 4.4) answers that by a Spark job over the table's log in each
 * batch. Here the checksum answers, which Delta writes beside each commit and which holds the
 * transaction ids, too. And checkpoints of the log do not hold up the next batch ({@link
 * DeltaCheckpoints}). To skip, to note the id, to find conflicts and to commit stay Delta's own.
 *
 * <p>This is not Delta's public interface. Where a class has another shape, each method says so, and
 * its caller writes once more as everyone does; Delta then skips what is in the table already.
 */
public final class DeltaWrites {
  private final DeltaCheckpoints checkpoints = new DeltaCheckpoints();

  /** Returns null once the rows are in the table, else what this Delta lacks. */
  public String append(DataFrameWriter<?> writer, String path, String table) {
    return write(
        () -> {
          if (path != null) {
            writer.save(path);
          } else {
            writer.saveAsTable(table);
          }
        });
  }

  /** The same for a merge. */
  public String merge(DeltaMergeBuilder merge) {
    return write(merge::execute);
  }

  private String write(Runnable rows) {
    try {
      new FirstTransaction(checkpoints).observe(rows);
      return null;
    } catch (LinkageError error) {
      return error.toString();
    }
  }

  /** The run has ended: waits for a checkpoint that is being written. */
  public void finish() {
    checkpoints.finish();
  }

  /** Asks the checksum of its snapshot, if that knows the query. */
  private static final class ChecksumTransaction extends OptimisticTransaction {
    private final DeltaCheckpoints checkpoints;

    ChecksumTransaction(
        DeltaLog log,
        Option<CatalogTable> table,
        Snapshot snapshot,
        DeltaCheckpoints checkpoints) {
      super(log, table, snapshot);
      this.checkpoints = checkpoints;
    }

    @Override
    public void runPostCommitHook(PostCommitHook hook, CommittedTransaction committed) {
      if (hook == CheckpointHook$.MODULE$ && mayWait(committed)) {
        checkpoints.write(() -> super.runPostCommitHook(hook, committed));
      } else {
        super.runPostCommitHook(hook, committed);
      }
    }

    /** Behind the commit nothing may throw: a Delta before 4.4 tells otherwise what is due. */
    private static boolean mayWait(CommittedTransaction committed) {
      try {
        MaintenanceOperation due = committed.maintenanceOperation();
        return due.shouldCheckpoint() && due.amtTriggerModeOpt().isEmpty(); // else it is a commit
      } catch (LinkageError e) {
        return false;
      }
    }

    @Override
    public long txnVersion(String id) {
      Option<VersionChecksum> checksum = snapshot().checksumOpt();
      // With a retention Delta forgets ids by their age, of which the checksum knows nothing.
      if (checksum.isEmpty() || snapshot().minSetTransactionRetentionTimestamp().isDefined()) {
        return super.txnVersion(id);
      }
      Option<Seq<SetTransaction>> ids = checksum.get().setTransactions();
      if (ids.isDefined()) {
        for (Iterator<SetTransaction> each = ids.get().iterator(); each.hasNext(); ) {
          SetTransaction one = each.next();
          if (one.appId().equals(id)) {
            readTxn().addOne(id); // another driver that commits under this id is a conflict
            return one.version();
          }
        }
      }
      return super.txnVersion(id);
    }
  }

  /** Delta asks it before each transaction of a thread; after the first it is no longer there. */
  private static final class FirstTransaction implements TransactionExecutionObserver {
    private static final TransactionExecutionObserver$ OF_THREAD =
        TransactionExecutionObserver$.MODULE$;
    private final TransactionExecutionObserver before =
        (TransactionExecutionObserver) OF_THREAD.getObserver();
    private final DeltaCheckpoints checkpoints;

    FirstTransaction(DeltaCheckpoints checkpoints) {
      this.checkpoints = checkpoints;
    }

    void observe(Runnable write) {
      OF_THREAD.setObserver(this);
      try {
        write.run();
      } finally {
        OF_THREAD.setObserver(before);
      }
    }

    @Override
    public OptimisticTransaction startingTransaction(Function0<OptimisticTransaction> start) {
      OF_THREAD.setObserver(before);
      OptimisticTransaction begun = before.startingTransaction(start);
      if (begun.getClass() != OptimisticTransaction.class) {
        return begun;
      }
      return new ChecksumTransaction(
          begun.deltaLog(), begun.catalogTable(), begun.snapshot(), checkpoints);
    }

    @Override
    public TransactionExecutionObserver createChild() {
      return before;
    }

    @Override
    public <T> T preparingCommit(Function0<T> prepare) {
      return before.preparingCommit(prepare);
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
