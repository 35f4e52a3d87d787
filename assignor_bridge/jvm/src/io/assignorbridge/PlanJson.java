package io.assignorbridge;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The planner's JSON lines: requests out, answers in. The contract is in docs/design.md. */
final class PlanJson {
  private static final JsonFactory FACTORY = new JsonFactory();
  private static final ObjectMapper MAPPER = new ObjectMapper(FACTORY);
  private static final int MOST_OF_ERROR = 2000;
  private static final int MOST_OF_TRACEBACK = 4000;

  /**
   * What a planner says of valid options: their meaning for us, its version of the state, and
   * whether it takes packed columns.
   */
  record Valid(
      boolean failsOnError,
      boolean sharesReader,
      long planTimeoutMs,
      String commitGroup,
      String planLog,
      int stateVersion,
      boolean takesPacked) {}

  /** One task of an answer. */
  record Task(String executor, int slot, List<PlanVerifier.Range> ranges, List<String> standbys) {}

  /** One answer: the tasks, the state to hand back, figures for the progress, and why. */
  record Plan(
      String assignor,
      List<Task> tasks,
      String state,
      Map<String, String> metrics,
      List<String> reasons) {}

  private PlanJson() {}

  static String validation(Map<String, String> options) {
    return written(
        json -> {
          json.writeStartObject();
          writeTexts(json, "validate", options);
          json.writeEndObject();
        });
  }

  /** Reads the answer to a validation; what is not set comes as null. */
  static Valid valid(String line) throws PlannerException {
    JsonNode answer = answer(line);
    JsonNode options = required(answer, "options");
    return new Valid(
        required(options, "assignor.onError").asText().equals("fail"),
        required(options, "assignor.reader").asText().equals("shared"),
        integer(options, "assignor.planTimeoutMs").longValue(),
        options.path("assignor.commitGroup").textValue(),
        options.path("assignor.planLog").textValue(),
        answer.path("stateVersion").asInt(),
        answer.path("packed").asBoolean());
  }

  /** Asks whether a stored state can be used for a stream of these topics. */
  static String restore(String state, Collection<String> topics) {
    return written(
        json -> {
          json.writeStartObject();
          json.writeStringField("restore", state);
          json.writeArrayFieldStart("topics");
          for (String topic : topics) {
            json.writeString(topic);
          }
          json.writeEndArray();
          json.writeEndObject();
        });
  }

  /** Topics of Spark's offset JSON, which is no answer: a topic may be called "error". */
  static List<String> topicsOf(String offsets) throws PlannerException {
    List<String> topics = new ArrayList<>();
    object(offsets, "Spark's offset").fieldNames().forEachRemaining(topics::add);
    return topics;
  }

  /** What to plan; {@code packed}: the planner takes what is long as {@link PackedColumns}. */
  static String snapshot(
      List<ExecutorList.Slots> executors,
      int parallelism,
      List<PlanVerifier.Range> ranges,
      Map<String, String> options,
      List<ReadReport> observed,
      String state,
      DynamicAllocation.Facts allocation,
      boolean packed) {
    return written(
        json -> {
          json.writeStartObject();
          json.writeNumberField("parallelism", parallelism);
          json.writeArrayFieldStart("executors");
          for (ExecutorList.Slots e : executors) {
            json.writeStartObject();
            json.writeStringField("id", e.id());
            json.writeStringField("host", e.host());
            json.writeNumberField("slots", e.slots());
            json.writeEndObject();
          }
          json.writeEndArray();
          json.writeFieldName("ranges");
          if (packed) {
            PackedColumns.writeRanges(json, ranges);
          } else {
            writeRanges(json, ranges);
          }
          writeTexts(json, "options", options);
          json.writeFieldName("observed");
          if (packed) {
            PackedColumns.writeObserved(json, observed);
          } else {
            writeObserved(json, observed);
          }
          json.writeStringField("state", state);
          if (allocation != null) {
            allocation.write(json);
          }
          json.writeEndObject();
        });
  }

  /** Reads an answer to a snapshot; an error in it becomes an exception with its whole story. */
  static Plan plan(String line) throws PlannerException {
    JsonNode answer = answer(line);
    List<Task> tasks = new ArrayList<>();
    for (JsonNode task : required(answer, "tasks")) {
      List<PlanVerifier.Range> ranges = new ArrayList<>();
      for (JsonNode range : required(task, "ranges")) {
        ranges.add(
            new PlanVerifier.Range(
                required(range, "topic").textValue(),
                integer(range, "partition").intValue(),
                integer(range, "start").longValue(),
                integer(range, "end").longValue()));
      }
      tasks.add(
          new Task(
              task.path("executor").textValue(),
              integer(task, "slot").intValue(),
              ranges,
              texts(task.path("standbys"))));
    }
    Map<String, String> metrics = new TreeMap<>();
    answer
        .path("metrics")
        .fields()
        .forEachRemaining(field -> metrics.put(field.getKey(), field.getValue().asText()));
    return new Plan(
        answer.path("assignor").asText(),
        tasks,
        answer.path("state").textValue(),
        metrics,
        texts(answer.path("reasons")));
  }

  /** Reads an answer and raises the error that it may hold. */
  static JsonNode answer(String line) throws PlannerException {
    JsonNode answer = object(line, "the planner's answer");
    if (answer.has("error")) {
      String error = answer.path("error").asText();
      String traceback = answer.path("traceback").asText("");
      int from = Math.max(0, traceback.length() - MOST_OF_TRACEBACK);
      throw new PlannerException(
          PlannerException.shortened(error, MOST_OF_ERROR)
              + (traceback.isEmpty() ? "" : "\n" + traceback.substring(from)),
          answer.path("misuse").asBoolean(false),
          null);
    }
    return answer;
  }

  private static JsonNode object(String line, String what) throws PlannerException {
    JsonNode node;
    try {
      node = MAPPER.readTree(line);
    } catch (IOException e) {
      throw new PlannerException(what + " is not JSON: " + shortened(line), e);
    }
    if (node == null || !node.isObject()) {
      throw new PlannerException(what + " is not a JSON object: " + shortened(line));
    }
    return node;
  }

  private static JsonNode required(JsonNode node, String field) throws PlannerException {
    JsonNode value = node.get(field);
    if (value == null || value.isNull()) {
      throw new PlannerException(
          "the planner's answer lacks '" + field + "': " + shortened(node.toString()));
    }
    return value;
  }

  private static JsonNode integer(JsonNode node, String field) throws PlannerException {
    JsonNode value = required(node, field);
    if (!value.isIntegralNumber() || !value.canConvertToLong()) {
      throw new PlannerException(
          "'" + field + "' of the planner's answer is no whole number: " + shortened(node.toString()));
    }
    return value;
  }

  private static List<String> texts(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(item -> texts.add(item.asText()));
    return texts;
  }

  private static String shortened(String text) {
    return PlannerException.shortened(text, 200);
  }

  private static void writeTexts(JsonGenerator json, String field, Map<String, String> texts)
      throws IOException {
    json.writeObjectFieldStart(field);
    for (Map.Entry<String, String> text : texts.entrySet()) {
      json.writeStringField(text.getKey(), text.getValue());
    }
    json.writeEndObject();
  }

  private static void writeRanges(JsonGenerator json, List<PlanVerifier.Range> ranges)
      throws IOException {
    json.writeStartArray();
    for (PlanVerifier.Range range : ranges) {
      json.writeStartObject();
      json.writeStringField("topic", range.topic());
      json.writeNumberField("partition", range.partition());
      json.writeNumberField("start", range.start());
      json.writeNumberField("end", range.end());
      json.writeEndObject();
    }
    json.writeEndArray();
  }

  private static void writeObserved(JsonGenerator json, List<ReadReport> reports)
      throws IOException {
    json.writeStartArray();
    for (ReadReport report : reports) {
      json.writeStartObject();
      json.writeStringField("topic", report.topic());
      json.writeNumberField("partition", report.partition());
      json.writeStringField("executor", report.executor());
      json.writeNumberField("records", report.records());
      json.writeNumberField("bytes", report.bytes());
      json.writeNumberField("seconds", report.seconds());
      json.writeNumberField("offsets", report.offsets());
      json.writeEndObject();
    }
    json.writeEndArray();
  }

  /** Something that writes JSON. */
  private interface Body {
    void write(JsonGenerator json) throws IOException;
  }

  private static String written(Body body) {
    StringWriter out = new StringWriter();
    try (JsonGenerator json = FACTORY.createGenerator(out)) {
      body.write(json);
    } catch (IOException e) {
      throw new UncheckedIOException(e); // a StringWriter does not fail
    }
    return out.toString();
  }
}
