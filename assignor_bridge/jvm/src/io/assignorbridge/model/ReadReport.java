package io.assignorbridge.model;

import java.io.Serializable;

/**
 * The cost of reading one range, which the task that read it reports to the driver.
 *
 * @param plan number of the plan, as in {@link AssignedInputPartition}
 * @param task index of the task in the plan
 * @param plannedExecutor id of the executor that the planner chose, or null
 * @param executor id of the executor that ran the task
 * @param records number of the range's rows that the reader returned to Spark
 * @param bytes size of those rows' keys and values; 0 for rows from Spark's own reader
 * @param nanos nanoseconds spent on the range, including the work downstream of the reader
 * @param coldNanos part of `nanos` until the first records arrived, if the consumer was not at the
 *     range's start; else 0
 * @param offsets number of offsets that the range covers
 * @param end end offset of the range (exclusive)
 * @param oldestMillis smallest Kafka timestamp of its records in milliseconds; greater than
 *     `newestMillis` if no record has a timestamp
 * @param newestMillis largest Kafka timestamp of its records in milliseconds
 * @param lostOffsets number of offsets in the range that were deleted before they were read
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
    long coldNanos,
    long offsets,
    long end,
    long oldestMillis,
    long newestMillis,
    long lostOffsets)
    implements Serializable {

  public double seconds() {
    return nanos / 1e9;
  }

  public double coldSeconds() {
    return coldNanos / 1e9;
  }
}
