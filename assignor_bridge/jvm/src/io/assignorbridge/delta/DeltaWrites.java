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
 * Writes the batches of one run to a Delta table as Delta does, but for four things. Which batch did
 * this query write last? Delta (up to 4.4) answers that by a Spark job over the table's log in each
 * batch. From the second batch on the checksum answers here, which Delta writes beside each commit and
 * which holds the transaction ids, too. Checkpoints of the log do not hold up the next batch ({@link
 * DeltaCheckpoints}). What was committed last is known from the batch before ({@link LastCommit}). And
 * a commit says which offsets and how many records its batch was made of, for `assignor audit`. To
 * skip, to note the id, to find conflicts and to commit stay Delta's own.
 *
 * <p>This is not Delta's public interface. Where a class has another shape, each method says so, and
 * its caller writes once more as everyone does; Delta then skips what is in the table already.
 */
public final class DeltaWrites {
  /**
   * What our sink leaves in a commit's user metadata for the figures that are known last, and for the
   * ranges: the text is a setting of the session, which Spark copies into each task and event.
   */
  private static final String TO_BE_FILLED = "\"ranges\":null,\"counted\":{}";

  /** What a source of `assignor run` observes of its records (records.py). */
  private static final List<String> OBSERVED =
      List.of("records", "bad_records", "tombstones", "checksum");

  private final DeltaCheckpoints checkpoints = new DeltaCheckpoints();

  private final LastCommit last = new LastCommit(checkpoints);

  /** The first batch may be in the table already, behind commits of others. */
  private boolean hasWritten;

  /**
   * Returns null once the rows are in the table, else what this Delta lacks. The batch's own
   * execution, if there is one, has counted its records once the rows are written; its ranges, if
   * they are known, are JSON.
   */
  public String append(
      DataFrameWriter<?> writer,
      String path,
      String table,
      QueryExecution execution,
      String ranges) {
    return write(
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

  /** The same for a merge. */
  public String merge(DeltaMergeBuilder merge, QueryExecution execution, String ranges) {
    return write(merge::execute, null, new Origin(execution, ranges));
  }

  /** The path is null where the table has a name, or is read for a merge. */
  private String write(Runnable rows, String path, Origin origin) {
    try {
      new FirstTransaction(checkpoints, last, path, hasWritten, origin).observe(rows);
      hasWritten = true;
      return null;
    } catch (LinkageError error) {
      return error.toString();
    }
  }

  /** The run has ended: waits for a checkpoint that is being written. */
  public void finish() {
    checkpoints.finish();
  }

  /** What a batch was made of, for `assignor audit`; whatever fails here, the batch is written. */
  private record Origin(QueryExecution execution, String ranges) {
    String filled(String text) {
      int at = text.lastIndexOf(TO_BE_FILLED); // the user's own words come before
      if (at < 0) {
        return text;
      }
      String figures = "\"ranges\":" + ranges + ",\"counted\":{" + counted() + "}";
      return text.substring(0, at) + figures + text.substring(at + TO_BE_FILLED.length());
    }

    private String counted() {
      try {
        return execution == null ? "" : sums();
      } catch (RuntimeException | LinkageError error) { // this Spark observes in another way
        return "";
      }
    }

    /** The sums of what the parsers of all sources have seen; nothing for records as they are. */
    private String sums() {
      boolean any = false;
      long records = 0;
      long checksum = 0;
      for (Iterator<Row> each = execution.observedMetrics().valuesIterator(); each.hasNext(); ) {
        Row row = each.next();
        if (row.schema() != null && OBSERVED.equals(List.of(row.schema().fieldNames()))) {
          any = true;
          records += row.getLong(0);
          checksum ^= row.isNullAt(3) ? 0 : row.getLong(3);
        }
      }
      return any
          ? String.format(Locale.ROOT, "\"records\":%d,\"checksum\":\"%016x\"", records, checksum)
          : "";
    }
  }

  /** Asks the checksum of its snapshot, if that knows the query. */
  private static final class ChecksumTransaction extends OptimisticTransaction {
    private final DeltaCheckpoints checkpoints;
    private final boolean asksChecksum;
    private final Origin origin;
    private boolean isCheckpointDue;

    ChecksumTransaction(
        OptimisticTransaction begun,
        DeltaCheckpoints checkpoints,
        boolean asksChecksum,
        Origin origin) {
      super(begun.deltaLog(), begun.catalogTable(), begun.snapshot());
      this.checkpoints = checkpoints;
      this.asksChecksum = asksChecksum;
      this.origin = origin;
    }

    /** Delta asks for it when it commits, and the rows are written by then. */
    @Override
    public Option<String> getUserMetadata(DeltaOperations.Operation operation) {
      Option<String> text = super.getUserMetadata(operation);
      return text.isEmpty() ? text : Option.apply(origin.filled(text.get()));
    }

    /** Due ones are written beside: Delta reads the log in such a commit, for its statistics. */
    @Override
    public boolean isCheckpointNeeded(long version, Snapshot committed) {
      boolean isNeeded = super.isCheckpointNeeded(version, committed);
      isCheckpointDue = isNeeded && checkpoints.canWrite();
      return isNeeded && !isCheckpointDue;
    }

    @Override
    public void runPostCommitHook(PostCommitHook hook, CommittedTransaction committed) {
      if (hook == CheckpointHook$.MODULE$ && isCheckpointDue) {
        checkpoints.write(
            () ->
                committed
                    .deltaLog()
                    .checkpoint(committed.postCommitSnapshot(), committed.catalogTable()));
      } else {
        super.runPostCommitHook(hook, committed);
      }
    }

    @Override
    public long txnVersion(String id) {
      Option<VersionChecksum> checksum = snapshot().checksumOpt();
      // With a retention Delta forgets ids by their age, of which the checksum knows nothing.
      if (!asksChecksum
          || checksum.isEmpty()
          || snapshot().minSetTransactionRetentionTimestamp().isDefined()) {
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
    private final LastCommit last;
    private final String path;
    private final boolean asksChecksum;
    private final Origin origin;

    FirstTransaction(
        DeltaCheckpoints checkpoints,
        LastCommit last,
        String path,
        boolean asksChecksum,
        Origin origin) {
      this.checkpoints = checkpoints;
      this.last = last;
      this.path = path;
      this.asksChecksum = asksChecksum;
      this.origin = origin;
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
      OptimisticTransaction begun = before.startingTransaction(() -> begin(start));
      if (begun.snapshot().version() < 0) { // Delta would make a table of this batch alone
        throw new UncheckedIOException(new FileNotFoundException("the table is gone"));
      }
      if (begun.getClass() != OptimisticTransaction.class) {
        return begun;
      }
      return new ChecksumTransaction(begun, checkpoints, asksChecksum, origin);
    }

    private OptimisticTransaction begin(Function0<OptimisticTransaction> start) {
      OptimisticTransaction begun = path == null ? null : last.begin(path);
      return begun == null ? last.begun(start.apply()) : begun;
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
