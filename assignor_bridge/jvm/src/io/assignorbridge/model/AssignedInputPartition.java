package io.assignorbridge.model;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;

/**
 * One task of a plan: the ranges that it reads, in this order, and where it should run.
 *
 * @param stream identity of the stream, stable between its micro-batches: names cached consumers
 * @param plan number of the plan within the stream (rises by one per new plan)
 * @param index position of this task in its plan
 * @param executor id of the executor that the planner chose, or null when it left the choice open
 * @param slot number of the slot on that executor, from 0
 * @param ranges Spark's own partitions, one a range; they carry Kafka parameters, poll timeout,
 *     failOnDataLoss and includeHeaders
 * @param preferredLocations Spark's location strings, most wanted first
 */
public record AssignedInputPartition(
    String stream,
    long plan,
    int index,
    String executor,
    int slot,
    KafkaBatchInputPartition[] ranges,
    String[] preferredLocations)
    implements InputPartition {}
