package io.assignorbridge.model;

import com.fasterxml.jackson.annotation.JsonInclude;

/**
 * An executor of the application.
 *
 * @param slots number of tasks that it runs at once
 * @param rack null if unknown
 * @param leaving whether it is gone, being removed, or being decommissioned. This comes from the
 *     scheduler's back end, because the status store's listener can miss the end of an executor,
 *     and every batch would then wait for that executor
 */
public record Executor(
    String id,
    String host,
    int slots,
    String rack,
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean excluded,
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean leaving,
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) int resourceProfile) {}
