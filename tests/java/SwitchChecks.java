package io.assignorbridge.settings;

import io.assignorbridge.model.PlannerException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.net.URI;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.spark.sql.SparkSession;

/** What the first look for the switch's file ends with: a line for each name of a file. */
public final class SwitchChecks {
  private SwitchChecks() {}

  /** A file system whose thread is interrupted, or whose server is too slow, while it looks. */
  public static final class Failing extends RawLocalFileSystem {
    @Override
    public URI getUri() {
      return URI.create("failing:///");
    }

    @Override
    public boolean exists(Path path) throws IOException {
      throw path.getName().equals("stopped")
          ? new InterruptedIOException("stopped")
          : new SocketTimeoutException("Read timed out");
    }
  }

  public static void main(String[] names) throws Exception {
    SparkSession session =
        SparkSession.builder()
            .master("local[1]")
            .config("spark.ui.enabled", false)
            .config("spark.hadoop.fs.failing.impl", Failing.class.getName())
            .getOrCreate();
    KillSwitch killSwitch = new KillSwitch(session);
    for (String name : names) {
      session.conf().set("spark.assignor.killSwitchFile", "failing:///" + name);
      try {
        System.out.println(name + ": " + killSwitch.findOffReasonAtStart());
      } catch (InterruptedException e) {
        System.out.println(name + ": interrupted");
      } catch (PlannerException e) {
        System.out.println(name + ": " + (e.misuse ? "misuse: " : "failure: ") + e.getMessage());
      }
    }
    session.stop();
  }
}
