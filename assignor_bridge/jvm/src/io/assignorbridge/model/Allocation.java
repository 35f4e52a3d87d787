package io.assignorbridge.model;

/** Spark's dynamic allocation limits. `secondsSinceLastPlan` is null for a run's first plan. */
public record Allocation(
    int minExecutors, int maxExecutors, int slotsPerExecutor, Double secondsSinceLastPlan) {}
