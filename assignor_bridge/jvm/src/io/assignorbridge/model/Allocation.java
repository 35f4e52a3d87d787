package io.assignorbridge.model;

/** Dynamic allocation's limits. `secondsSinceLastPlan` is null at a run's first planning. */
public record Allocation(
    int minExecutors, int maxExecutors, int slotsPerExecutor, Double secondsSinceLastPlan) {}
