package io.assignorbridge.worker;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonSubTypes;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.annotation.JsonTypeName;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.assignorbridge.model.Allocation;
import io.assignorbridge.model.Executor;
import io.assignorbridge.model.PlannerException;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/**
 * The messages between this JVM and the planner process, one JSON object per line. They correspond
 * to the classes in Python's `protocol/messages.py`.
 */
public final class Messages {
  private static final int MAX_ERROR_CHARS = 2000;
  private static final int MAX_TRACEBACK_CHARS = 4000;
  private static final ObjectMapper JSON =
      JsonMapper.builder()
          .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
          .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
          .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
          .serializationInclusion(JsonInclude.Include.NON_NULL)
          .build();

  @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, property = "type")
  sealed interface Request {}

  @JsonTypeName("validate")
  record ValidateOptions(Map<String, String> options) implements Request {}

  @JsonTypeName("restore")
  public record Restore(String state, Collection<String> topics) implements Request {}

  /** Ends a stream. It is sent before the next request of any other stream. */
  @JsonTypeName("end")
  record EndStream() implements Request {}

  /** Requests a plan. `state`, `allocation`, `racks` may be null; `options` is for the plan log. */
  @JsonTypeName("plan")
  public record PlanBatch(
      int parallelism,
      List<Executor> executors,
      Columns.Ranges ranges,
      Columns.Reports observed,
      String state,
      Allocation allocation,
      Columns.Racks racks,
      int stream,
      Map<String, Integer> partitions,
      Map<String, String> options)
      implements Request {
    public PlanBatch withOptions(Map<String, String> values) {
      return new PlanBatch(
          parallelism, executors, ranges, observed, state, allocation, racks, stream, partitions,
          values);
    }
  }

  /**
   * Requests the end of a batch. `mostRecords` is null if Spark has no limit, `last` if there is no
   * completed batch to report, and `times` and `retentionMs` if the planner does not need them.
   */
  @JsonTypeName("admit")
  public record AdmitBatch(
      int parallelism,
      List<Executor> executors,
      Columns.Ranges ranges,
      Columns.Reports observed,
      String state,
      Long mostRecords,
      boolean fixedEnd,
      CompletedBatch last,
      Columns.Times times,
      Map<String, Long> retentionMs,
      int stream)
      implements Request {
    /** Returns the request with the results of a look-up. */
    public AdmitBatch withTimes(Columns.Times times) {
      return new AdmitBatch(
          parallelism, executors, ranges, observed, state, mostRecords, fixedEnd, last, times,
          retentionMs, stream);
    }

    /** Returns the request for the plan log, without fields that the plan's own request repeats. */
    public AdmitBatch forLog() {
      return new AdmitBatch(
          parallelism, null, ranges, null, null, mostRecords, fixedEnd, last, times, retentionMs,
          stream);
    }
  }

  /** The size (in offsets) and duration of a completed batch. */
  public record CompletedBatch(long records, double seconds) {}

  @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, property = "type")
  @JsonSubTypes({
    @JsonSubTypes.Type(Validated.class),
    @JsonSubTypes.Type(Restored.class),
    @JsonSubTypes.Type(StreamEnded.class),
    @JsonSubTypes.Type(Planned.class),
    @JsonSubTypes.Type(Admitted.class),
    @JsonSubTypes.Type(LookUp.class),
    @JsonSubTypes.Type(Failed.class)
  })
  public sealed interface Answer {}

  /** `admits` is whether options limit batches, `needsTimes` whether that needs timestamps. */
  @JsonTypeName("validated")
  public record Validated(
      EffectiveOptions options,
      int stateVersion,
      boolean admits,
      boolean needsTimes,
      String packageVersion)
      implements Answer {}

  /** The effective options that Java uses; an option that is not set is null. */
  public record EffectiveOptions(
      @JsonProperty("assignor.onError") String onError,
      @JsonProperty("assignor.reader") String reader,
      @JsonProperty("assignor.planTimeoutMs") long planTimeoutMs,
      @JsonProperty("assignor.commitGroup") String commitGroup,
      @JsonProperty("assignor.planLog") String planLog,
      @JsonProperty("assignor.fairness") String fairness,
      @JsonProperty("assignor.rack") String rack,
      @JsonProperty("assignor.rackFile") String rackFile) {}

  /** Reports why the planner cannot use a stored state; `why` is null if it can. */
  @JsonTypeName("restored")
  public record Restored(String why) implements Answer {}

  @JsonTypeName("ended")
  record StreamEnded() implements Answer {}

  @JsonTypeName("planned")
  public record Planned(
      String assignor,
      Columns.Tasks tasks,
      String state,
      Map<String, String> metrics,
      List<String> reasons)
      implements Answer {}

  @JsonTypeName("admitted")
  public record Admitted(Columns.Ranges ranges, Map<String, String> metrics) implements Answer {}

  /** Requests each partition's first offset from time `timeMs` on, to limit the batch. */
  @JsonTypeName("lookUp")
  public record LookUp(long timeMs) implements Answer {}

  @JsonTypeName("failed")
  record Failed(String error, boolean misuse, String traceback) implements Answer {}

  private Messages() {}

  public static String format(Object message) throws PlannerException {
    try {
      return JSON.writeValueAsString(message);
    } catch (JsonProcessingException e) {
      throw new PlannerException("could not serialize a message for the planner", e);
    }
  }

  /** Parses an answer of the expected type; throws the planner's error if the request failed. */
  public static <A extends Answer> A parse(String line, Class<A> expectedType)
      throws PlannerException {
    Answer answer;
    try {
      answer = JSON.readValue(line, Answer.class);
    } catch (JsonProcessingException e) {
      String problem =
          e instanceof JsonMappingException
              ? "does not follow the contract (" + e.getOriginalMessage() + "): "
              : "is not JSON: ";
      throw new PlannerException(
          "the planner's answer " + problem + PlannerException.shorten(line, 200), e);
    }
    if (answer instanceof Failed failure) {
      String traceback = failure.traceback();
      int start = Math.max(0, traceback.length() - MAX_TRACEBACK_CHARS);
      throw new PlannerException(
          PlannerException.shorten(failure.error(), MAX_ERROR_CHARS)
              + (traceback.isEmpty() ? "" : "\n" + traceback.substring(start)),
          failure.misuse(),
          null);
    }
    if (!expectedType.isInstance(answer)) {
      String text = PlannerException.shorten(line, 200);
      throw new PlannerException("the planner returned an unexpected answer: " + text);
    }
    return expectedType.cast(answer);
  }

  /** Returns the topics in a Spark offset, which is JSON. */
  public static Collection<String> parseTopics(String offsets) throws PlannerException {
    try {
      return JSON.readValue(offsets, new TypeReference<Map<String, Object>>() {}).keySet();
    } catch (JsonProcessingException e) {
      throw new PlannerException("Spark's offset is not a JSON object: " + offsets, e);
    }
  }
}
