package io.assignorbridge.worker;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.assignorbridge.model.Executor;
import io.assignorbridge.model.OffsetRange;
import io.assignorbridge.model.ReadReport;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Writes requests and reads answers as the driver does. Standard input holds snapshots with rows and
 * the planner's answers, one a line: a snapshot comes out as the driver would send it, an answer as
 * its tasks.
 */
public final class Exchanges {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Exchanges() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode given = JSON.readTree(line);
      out.println(
          given.has("ranges")
              ? Messages.format(request(given))
              : JSON.writeValueAsString(
                  Messages.parse(line, Messages.Planned.class).tasks().unpack()));
    }
    out.flush();
  }

  static Messages.PlanBatch request(JsonNode snapshot) {
    return new Messages.PlanBatch(
        snapshot.path("parallelism").asInt(1),
        executors(snapshot.get("executors")),
        Columns.Ranges.of(ranges(snapshot.get("ranges"))),
        Columns.Reports.of(reports(snapshot.get("observed"))),
        snapshot.get("state").textValue(),
        null,
        snapshot.path("ranges").path(0).has("racks") ? racks(snapshot.get("ranges")) : null,
        snapshot.path("stream").asInt(),
        null,
        null);
  }

  /** A set a range. */
  private static Columns.Racks racks(JsonNode ranges) {
    List<List<String>> sets = new ArrayList<>();
    List<Integer> places = new ArrayList<>();
    for (JsonNode range : ranges) {
      List<String> racks = new ArrayList<>();
      range.get("racks").forEach(rack -> racks.add(rack.asText()));
      places.add(racks.isEmpty() ? -1 : sets.size());
      if (!racks.isEmpty()) {
        sets.add(racks);
      }
    }
    var place = places.iterator();
    return Columns.Racks.of(sets, ranges(ranges), range -> place.next());
  }

  public static List<Executor> executors(JsonNode given) {
    List<Executor> executors = new ArrayList<>();
    for (JsonNode e : given) {
      executors.add(
          new Executor(
              e.get("id").asText(),
              e.get("host").asText(),
              e.get("slots").asInt(),
              e.path("rack").textValue(),
              e.path("excluded").asBoolean(),
              e.path("leaving").asBoolean(),
              e.path("resourceProfile").asInt()));
    }
    return executors;
  }

  public static List<ReadReport> reports(JsonNode given) {
    List<ReadReport> reports = new ArrayList<>();
    for (JsonNode o : given) {
      reports.add(
          new ReadReport(
              1,
              0,
              null,
              o.get("executor").asText(),
              o.get("topic").asText(),
              o.get("partition").asInt(),
              o.get("records").asLong(),
              o.get("bytes").asLong(),
              (long) (o.get("seconds").asDouble() * 1e9),
              (long) (o.path("coldSeconds").asDouble() * 1e9),
              o.get("offsets").asLong(),
              o.get("offsets").asLong(),
              Long.MAX_VALUE,
              Long.MIN_VALUE,
              0));
    }
    return reports;
  }

  static List<OffsetRange> ranges(JsonNode given) {
    List<OffsetRange> ranges = new ArrayList<>();
    for (JsonNode r : given) {
      ranges.add(
          new OffsetRange(
              r.get("topic").asText(),
              r.get("partition").asInt(),
              r.get("start").asLong(),
              r.get("end").asLong()));
    }
    return ranges;
  }
}
