package io.assignorbridge.planning;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.assignorbridge.model.Executor;
import io.assignorbridge.model.ReadReport;
import io.assignorbridge.state.CheckpointFolder;
import io.assignorbridge.worker.Columns;
import io.assignorbridge.worker.Exchanges;
import io.assignorbridge.worker.Messages;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.streaming.CheckpointFileManager;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import scala.Option;

/**
 * Times what the driver's JVM does around one planner call, without Spark running: write the
 * request, read the answer, verify and build the tasks; and, after the batch and on a thread of its
 * own, keep the state. A last phase is no work of ours: Spark's own writer given the same text, as
 * for a file of its offset log. Arguments: a file with the request and the answer, one a line, how
 * many runs, and a folder for state files. Prints the milliseconds of each run, a phase a line.
 */
public final class BridgeTime {
  private BridgeTime() {}

  public static void main(String[] arguments) throws Exception {
    List<String> lines = Files.readAllLines(Path.of(arguments[0]));
    int runs = Integer.parseInt(arguments[1]);
    JsonNode asked = new ObjectMapper().readTree(lines.get(0));
    InputPartition[] partitions = partitions(asked.get("ranges"));
    List<Executor> executors = Exchanges.executors(asked.get("executors"));
    List<ReadReport> observed = Exchanges.reports(asked.get("observed"));
    String state = asked.get("state").textValue();
    int warmUp = 10 + 100_000 / partitions.length;
    double[] encode = new double[runs];
    double[] decode = new double[runs];
    double[] build = new double[runs];
    double[] keep = new double[runs];
    double[] log = new double[runs];
    org.apache.hadoop.fs.Path folder = new org.apache.hadoop.fs.Path(arguments[2]);
    CheckpointFolder states = new CheckpointFolder(folder, new Configuration());
    org.apache.hadoop.fs.Path offsets = new org.apache.hadoop.fs.Path(folder, "offsets");
    CheckpointFileManager spark = CheckpointFileManager.create(offsets, new Configuration());
    spark.mkdirs(offsets);
    for (int run = -warmUp; run < runs; run++) {
      System.gc();
      long begin = System.nanoTime();
      TaskBuilder builder = new TaskBuilder(partitions);
      String request =
          Messages.format(
              new Messages.PlanBatch(
                  1,
                  executors,
                  Columns.Ranges.of(builder.requestedRanges()),
                  Columns.Reports.of(observed),
                  state,
                  null,
                  null,
                  0,
                  null,
                  null));
      long encoded = System.nanoTime();
      Messages.Planned plan = Messages.parse(lines.get(1), Messages.Planned.class);
      List<Columns.Task> planned = plan.tasks().unpack();
      long decoded = System.nanoTime();
      InputPartition[] tasks = builder.build(planned, executors, "stream", run);
      long built = System.nanoTime();
      if (tasks.length == 0 || request.isEmpty()) {
        throw new IllegalStateException("nothing was planned");
      }
      long writing = System.nanoTime();
      states.write(run + ".v1", plan.state());
      states.delete(run - 1 + ".v1");
      long kept = System.nanoTime();
      try (OutputStream out =
          spark.createAtomic(new org.apache.hadoop.fs.Path(offsets, "" + run), false)) {
        out.write(plan.state().getBytes(StandardCharsets.UTF_8));
      }
      if (run >= 0) {
        encode[run] = (encoded - begin) / 1e6;
        decode[run] = (decoded - encoded) / 1e6;
        build[run] = (built - decoded) / 1e6;
        keep[run] = (kept - writing) / 1e6;
        log[run] = (System.nanoTime() - kept) / 1e6;
      }
    }
    System.out.println(Arrays.toString(encode));
    System.out.println(Arrays.toString(decode));
    System.out.println(Arrays.toString(build));
    System.out.println(Arrays.toString(keep));
    System.out.println(Arrays.toString(log));
  }

  private static InputPartition[] partitions(JsonNode ranges) {
    InputPartition[] made = new InputPartition[ranges.size()];
    for (int i = 0; i < made.length; i++) {
      JsonNode r = ranges.get(i);
      TopicPartition tp =
          new TopicPartition(r.get("topic").asText(), r.get("partition").asInt());
      made[i] =
          new KafkaBatchInputPartition(
              new KafkaOffsetRange(
                  tp, r.get("start").asLong(), r.get("end").asLong(), Option.empty()),
              Map.of(),
              120_000,
              true,
              false);
    }
    return made;
  }
}
