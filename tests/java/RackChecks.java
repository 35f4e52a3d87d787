package io.assignorbridge.cluster;

import static java.util.stream.Collectors.joining;

import io.assignorbridge.model.PlannerException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.cluster.YarnScheduler;
import org.apache.spark.storage.FileBasedTopologyMapper;

/** What the driver knows of racks, asked by the tests. */
public final class RackChecks {
  private RackChecks() {}

  /**
   * `files FOLDER HOST…`: the racks of hosts by each file of a folder, a line each, or what is wrong;
   * beside them what Spark's own mapper reads there, if that is something else.
   * `yarn TABLE HOST…`: the rack of each by YARN's scheduler with Hadoop's table, and by Spark's own.
   */
  public static void main(String[] arguments) throws Exception {
    List<String> words = new ArrayList<>(Arrays.asList(arguments));
    String what = words.remove(0);
    String file = words.remove(0);
    if (what.equals("yarn")) {
      yarn(file, words);
      return;
    }
    try (Stream<Path> files = Files.list(Path.of(file))) {
      files.sorted().forEach(one -> System.out.println(racks(one, words)));
    }
  }

  private static String racks(Path file, List<String> hosts) {
    try {
      ExecutorRacks.RackFile racks = new ExecutorRacks.RackFile(file.toString());
      String ours = hosts.stream().map(host -> String.valueOf(racks.findRack(host))).collect(joining(" "));
      FileBasedTopologyMapper mapper =
          new FileBasedTopologyMapper(
              new SparkConf(false).set("spark.storage.replication.topologyFile", file.toString()));
      String sparks =
          hosts.stream()
              .map(host -> mapper.getTopologyForHost(host).getOrElse(() -> "null"))
              .collect(joining(" "));
      return ours.equals(sparks) ? ours : ours + ", but Spark's mapper reads " + sparks;
    } catch (PlannerException e) {
      return (e.misuse ? "misuse: " : "failure: ") + e.getMessage();
    }
  }

  private static void yarn(String table, List<String> hosts) {
    SparkConf conf =
        new SparkConf()
            .setMaster("local[1]")
            .setAppName("racks")
            .set("spark.ui.enabled", "false")
            .set("spark.driver.host", "127.0.0.1")
            .set("spark.driver.bindAddress", "127.0.0.1")
            .set(
                "spark.hadoop.net.topology.node.switch.mapping.impl",
                "org.apache.hadoop.net.TableMapping")
            .set("spark.hadoop.net.topology.table.file.name", table);
    SparkContext context = new SparkContext(conf);
    for (TaskScheduler scheduler :
        List.of(new YarnScheduler(context), new TaskSchedulerImpl(context))) {
      hosts.forEach(host -> System.out.println(ExecutorRacks.findYarnRack(scheduler, host)));
    }
    context.stop();
  }
}
