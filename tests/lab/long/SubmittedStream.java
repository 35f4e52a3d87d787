import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/** A Java application for spark-submit: reads a topic with the option, once. */
public final class SubmittedStream {
  private SubmittedStream() {}

  /** Takes brokers, topic and a folder; writes the progress of each batch with rows. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[2]);
    SparkSession spark = SparkSession.builder().appName("submitted").getOrCreate();
    StreamingQuery query =
        spark
            .readStream()
            .format("kafka")
            .option("kafka.bootstrap.servers", arguments[0])
            .option("subscribe", arguments[1])
            .option("startingOffsets", "earliest")
            .option("assignor", "lag-aware-sticky")
            .load()
            .writeStream()
            .format("noop")
            .option("checkpointLocation", folder.resolve("checkpoint").toString())
            .trigger(Trigger.AvailableNow())
            .start();
    query.awaitTermination();
    List<String> batches =
        Arrays.stream(query.recentProgress())
            .filter(progress -> progress.numInputRows() > 0)
            .map(progress -> progress.json())
            .toList();
    Files.writeString(folder.resolve("told.json"), "{\"batches\": " + batches + "}");
    spark.stop();
  }
}
