package io.assignorbridge.model;

import java.io.Serializable;

/**
 * What reading one range cost, sent by a finished reader to the driver.
 *
 * @param plan number of the plan, as in {@link AssignedInputPartition}
 * @param task index of the task in the plan
 * @param plannedExecutor where the planner wanted the task, or null
 * @param executor where it ran
 * @param records rows that the reader gave to Spark
 * @param bytes serialised key and value bytes of those records
 * @param nanos time spent on the range, the work downstream of the reader included
 * @param offsets offsets that the range covered
 * @param until where the range ended
 * @param oldest Kafka's timestamp of the oldest record, in milliseconds; above the newest one's when
 *     no record had one
 * @param newest that of the newest record
 * @param lost offsets of the range that were deleted before they were read
 */
public record ReadReport(
    long plan,
    int task,
    String plannedExecutor,
    String executor,
    String topic,
    int partition,
    long records,
    long bytes,
    long nanos,
    long offsets,
    long until,
    long oldest,
    long newest,
    long lost)
    implements Serializable {

  public double seconds() {
    return nanos / 1e9;
  }
}
