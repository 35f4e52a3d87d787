package io.assignorbridge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Writes requests as the driver does. Standard input holds requests as rows, one a line; each comes
 * out as rows and, on the next line, packed.
 */
public final class Requests {
  private Requests() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode asked = new ObjectMapper().readTree(line);
      for (boolean packed : new boolean[] {false, true}) {
        out.println(
            PlanJson.snapshot(
                executors(asked.get("executors")),
                asked.get("parallelism").asInt(),
                ranges(asked.get("ranges")),
                Map.of("assignor", "lag-aware-sticky"),
                reports(asked.get("observed")),
                asked.get("state").textValue(),
                null,
                packed));
      }
    }
    out.flush();
  }

  static List<ExecutorList.Slots> executors(JsonNode given) {
    List<ExecutorList.Slots> executors = new ArrayList<>();
    for (JsonNode e : given) {
      executors.add(
          new ExecutorList.Slots(
              e.get("id").asText(), e.get("host").asText(), e.get("slots").asInt()));
    }
    return executors;
  }

  static List<ReadReport> reports(JsonNode given) {
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
              o.get("offsets").asLong()));
    }
    return reports;
  }

  private static List<PlanVerifier.Range> ranges(JsonNode given) {
    List<PlanVerifier.Range> ranges = new ArrayList<>();
    for (JsonNode r : given) {
      ranges.add(
          new PlanVerifier.Range(
              r.get("topic").asText(),
              r.get("partition").asInt(),
              r.get("start").asLong(),
              r.get("end").asLong()));
    }
    return ranges;
  }
}
