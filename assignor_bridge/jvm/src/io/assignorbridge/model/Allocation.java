package io.assignorbridge.model;

/** Limits of Spark's dynamic allocation; the seconds are null before the second plan of a run. */
public record Allocation(
    int minExecutors, int maxExecutors, int slotsPerExecutor, Double secondsSinceLastPlan) {}
