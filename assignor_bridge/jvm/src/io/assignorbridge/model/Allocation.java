package io.assignorbridge.model;

/** Spark's limits where executors come and go; null seconds before the second plan of a run. */
public record Allocation(
    int minExecutors, int maxExecutors, int slotsPerExecutor, Double secondsSinceLastPlan) {}
