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
 * The messages between this JVM and the planner process, one JSON object a line. The Python side of
 * each is a class of the same name in `protocol/messages.py`.
 */
public final class Messages {
  private static final int MOST_OF_ERROR = 2000;
  private static final int MOST_OF_TRACEBACK = 4000;
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
  record Validate(Map<String, String> options) implements Request {}

  @JsonTypeName("restore")
  public record Restore(String state, Collection<String> topics) implements Request {}

  /** Of a stream that has ended, on another one's time. */
  @JsonTypeName("end")
  record End() implements Request {}

  /** What to plan; racks are null where none is known. The options are only for the plan log: the planner has them already. */
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
    public PlanBatch with(Map<String, String> values) {
      return new PlanBatch(
          parallelism, executors, ranges, observed, state, allocation, racks, stream, partitions,
          values);
    }
  }

  /**
   * How far may the batch go? Null where there is no limit of Spark's, no batch before, or the
   * planner needs no times, or not to know for how long topics keep records.
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
    /** The same question, with what Kafka answered. */
    public AdmitBatch with(Columns.Times answered) {
      return new AdmitBatch(
          parallelism,
          executors,
          ranges,
          observed,
          state,
          mostRecords,
          fixedEnd,
          last,
          answered,
          retentionMs,
          stream);
    }

    /** Without what the plan of the batch is asked with, too. */
    public AdmitBatch forLog() {
      return new AdmitBatch(
          parallelism,
          null,
          ranges,
          null,
          null,
          mostRecords,
          fixedEnd,
          last,
          times,
          retentionMs,
          stream);
    }
  }

  /** What an admitted batch took until it was completed. */
  public record CompletedBatch(long records, double seconds) {}

  @JsonTypeInfo(use = JsonTypeInfo.Id.NAME, property = "type")
  @JsonSubTypes({
    @JsonSubTypes.Type(Validated.class),
    @JsonSubTypes.Type(Restored.class),
    @JsonSubTypes.Type(Ended.class),
    @JsonSubTypes.Type(Planned.class),
    @JsonSubTypes.Type(Admitted.class),
    @JsonSubTypes.Type(LookUp.class),
    @JsonSubTypes.Type(Failed.class)
  })
  public sealed interface Answer {}

  @JsonTypeName("validated")
  public record Validated(
      EffectiveOptions options,
      int stateVersion,
      boolean admits,
      boolean needsTimes,
      String packageVersion)
      implements Answer {}

  /** Those of the effective options that this side heeds; null where one is not set. */
  public record EffectiveOptions(
      @JsonProperty("assignor.onError") String onError,
      @JsonProperty("assignor.reader") String reader,
      @JsonProperty("assignor.planTimeoutMs") long planTimeoutMs,
      @JsonProperty("assignor.commitGroup") String commitGroup,
      @JsonProperty("assignor.planLog") String planLog,
      @JsonProperty("assignor.fairness") String fairness,
      @JsonProperty("assignor.rack") String rack,
      @JsonProperty("assignor.rackFile") String rackFile) {}

  /** Why a stored state cannot be used; null when it can. */
  @JsonTypeName("restored")
  public record Restored(String why) implements Answer {}

  @JsonTypeName("ended")
  record Ended() implements Answer {}

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

  /** Before it can say how far: where is each range's first record at or after this time? */
  @JsonTypeName("lookUp")
  public record LookUp(long timeMs) implements Answer {}

  @JsonTypeName("failed")
  record Failed(String error, boolean misuse, String traceback) implements Answer {}

  private Messages() {}

  public static String write(Object message) throws PlannerException {
    try {
      return JSON.writeValueAsString(message);
    } catch (JsonProcessingException e) {
      throw new PlannerException("a message to the planner cannot be written", e);
    }
  }

  /** Returns an answer of the expected kind; a failure becomes an exception with its whole story. */
  public static <A extends Answer> A read(String line, Class<A> expected) throws PlannerException {
    Answer answer;
    try {
      answer = JSON.readValue(line, Answer.class);
    } catch (JsonProcessingException e) {
      String fault =
          e instanceof JsonMappingException
              ? "does not follow the contract (" + e.getOriginalMessage() + "): "
              : "is not JSON: ";
      throw new PlannerException(
          "the planner's answer " + fault + PlannerException.shorten(line, 200), e);
    }
    if (answer instanceof Failed failed) {
      String traceback = failed.traceback();
      int from = Math.max(0, traceback.length() - MOST_OF_TRACEBACK);
      throw new PlannerException(
          PlannerException.shorten(failed.error(), MOST_OF_ERROR)
              + (traceback.isEmpty() ? "" : "\n" + traceback.substring(from)),
          failed.misuse(),
          null);
    }
    if (!expected.isInstance(answer)) {
      throw new PlannerException("the planner gave an unexpected answer: " + answer);
    }
    return expected.cast(answer);
  }

  /** Returns the topics of Spark's offset JSON. */
  public static Collection<String> topicsOf(String offsets) throws PlannerException {
    try {
      return JSON.readValue(offsets, new TypeReference<Map<String, Object>>() {}).keySet();
    } catch (JsonProcessingException e) {
      throw new PlannerException("Spark's offset is not a JSON object: " + offsets, e);
    }
  }
}
