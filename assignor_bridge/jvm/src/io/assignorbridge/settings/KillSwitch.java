package io.assignorbridge.settings;

import io.assignorbridge.kafka.SecuredParams;
import io.assignorbridge.model.Interruptions;
import io.assignorbridge.model.PlannerException;
import java.io.IOException;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Switches the option off and on while queries run: by a setting of the session that loaded the
 * stream (a query has a copy of its session, which nobody can change), or by a file that is there.
 */
public final class KillSwitch {
  private static final Logger LOG = LoggerFactory.getLogger(KillSwitch.class);
  private static final String ENABLED = "spark.assignor.enabled";
  private static final String FILE = "spark.assignor.killSwitchFile";

  /** Settings of a session that are about the switch, not about planning. */
  static final List<String> SETTINGS = List.of(ENABLED, FILE);

  private final SparkSession session;
  private String off; // why it is; null when it is on
  private boolean unreadable; // as of the last look

  public KillSwitch(SparkSession session) {
    this.session = session;
  }

  /** As whyOff(), but fails where nobody can tell: before the first batch, that can be put right. */
  public String whyOffAtStart() throws PlannerException, InterruptedException {
    try {
      return now(read());
    } catch (IOException | RuntimeException | LinkageError e) {
      if (Interruptions.isInterruption(e)) {
        throw new InterruptedException(inWords(e)); // the query is being stopped: nobody's misuse
      }
      throw new PlannerException(inWords(e), true, e);
    }
  }

  /** Why the next batch is Spark's own; null when it is ours. As before where nobody can tell. */
  public String whyOff() {
    try {
      return now(read());
    } catch (IOException | RuntimeException | LinkageError e) { // the last for half a file system
      if (Interruptions.isInterruption(e)) { // the query ends
        Thread.currentThread().interrupt();
      }
      return asBefore(inWords(e));
    }
  }

  private synchronized String asBefore(String why) {
    if (!unreadable) {
      LOG.warn("assignor-bridge stays switched {}: {}", off == null ? "on" : "off", why);
    }
    unreadable = true;
    return off;
  }

  private synchronized String now(String why) {
    if (why != null && off == null) {
      LOG.warn("assignor-bridge is switched off, Spark's own mapping is used: {}", why);
    } else if (why == null && off != null) {
      LOG.warn("assignor-bridge is switched on again");
    }
    unreadable = false;
    off = why;
    return why;
  }

  /** Streams of one session do not wait for each other's look at the file. */
  private String read() throws IOException {
    String enabled = session.conf().get(ENABLED, "true").strip();
    if (enabled.equalsIgnoreCase("false")) {
      return ENABLED + " is false";
    }
    if (!enabled.equalsIgnoreCase("true")) {
      throw new IllegalArgumentException(ENABLED + " must be true or false, not '" + enabled + "'");
    }
    String file = session.conf().get(FILE, "").strip();
    if (!file.isEmpty()) {
      Path path = new Path(file);
      if (path.getFileSystem(session.sessionState().newHadoopConf()).exists(path)) {
        return FILE + " exists: " + SecuredParams.maskPassword(file);
      }
    }
    return null;
  }

  private static String inWords(Throwable e) {
    boolean ours = e.getMessage() != null && e.getMessage().startsWith(ENABLED);
    return ours ? e.getMessage() : FILE + " cannot be looked for: " + SecuredParams.maskPassword(e.toString());
  }
}
