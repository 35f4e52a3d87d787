package io.assignorbridge.model;

import com.fasterxml.jackson.annotation.JsonInclude;

/**
 * An executor of the application.
 *
 * @param slots number of tasks that the executor can run at once
 * @param rack rack of the executor; null if unknown
 * @param excluded whether Spark sends it no tasks, because tasks failed there
 * @param leaving whether the executor is gone, being removed, or being decommissioned, according to
 *     the scheduler's back end. The status store can miss the end of an executor, and every batch
 *     would then wait for that executor
 * @param resourceProfile id of the executor's resource profile
 */
public record Executor(
    String id,
    String host,
    int slots,
    String rack,
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean excluded,
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean leaving,
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) int resourceProfile) {}
