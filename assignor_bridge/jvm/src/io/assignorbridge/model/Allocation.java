package io.assignorbridge.model;

/** Dynamic allocation limits. `secondsSinceLastPlan` is null for a run's first attempt to plan. */
public record Allocation(
    int minExecutors, int maxExecutors, int slotsPerExecutor, Double secondsSinceLastPlan) {}
