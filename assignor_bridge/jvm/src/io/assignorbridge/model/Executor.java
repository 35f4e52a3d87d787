package io.assignorbridge.model;

import com.fasterxml.jackson.annotation.JsonInclude;

/**
 * An executor of the application.
 *
 * @param slots how many tasks it runs at once
 * @param rack null: unknown
 * @param leaving gone, being removed or being decommissioned. The scheduler's back end is asked,
 *     not the status store: that one's listener may lose the end of an executor, and each batch
 *     would wait for it
 */
public record Executor(
    String id,
    String host,
    int slots,
    String rack,
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean excluded,
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) boolean leaving,
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) int resourceProfile) {}
