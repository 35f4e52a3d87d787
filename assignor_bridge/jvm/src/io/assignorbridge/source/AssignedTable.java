package io.assignorbridge.source;

import io.assignorbridge.settings.KillSwitch;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's Kafka table with our scan, for streaming relations only. */
final class AssignedTable implements SupportsRead {
  private final SupportsRead base;
  private final KillSwitch killSwitch;

  AssignedTable(SupportsRead base, KillSwitch killSwitch) {
    this.base = base;
    this.killSwitch = killSwitch;
  }

  @Override
  public String name() {
    return base.name();
  }

  @Override
  @SuppressWarnings("deprecation") // Table.columns() calls it
  public StructType schema() {
    return base.schema();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return base.capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ScanBuilder builder = base.newScanBuilder(options);
    return () -> new AssignedScan(builder.build(), options, killSwitch);
  }
}
