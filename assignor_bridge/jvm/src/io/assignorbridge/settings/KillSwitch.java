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
 * Reads whether a session setting or the existence of a file switches assignor-bridge off. The
 * session is the one that loaded the stream, because the query's own copy cannot be changed.
 */
public final class KillSwitch {
  private static final Logger LOG = LoggerFactory.getLogger(KillSwitch.class);
  private static final String ENABLED_SETTING = "spark.assignor.enabled";
  private static final String FILE_SETTING = "spark.assignor.killSwitchFile";

  /** Session settings for the switch; they are not planner options. */
  static final List<String> SETTINGS = List.of(ENABLED_SETTING, FILE_SETTING);

  private final SparkSession session;
  private String offReason; // null while assignor-bridge is on
  private boolean isUnreadable; // whether the last read of the switch failed

  public KillSwitch(SparkSession session) {
    this.session = session;
  }

  /** Like {@link #findOffReason}, but fails if the switch cannot be read. */
  public String findOffReasonAtStart() throws PlannerException, InterruptedException {
    try {
      return setOffReason(readOffReason());
    } catch (IOException | RuntimeException | LinkageError e) {
      if (Interruptions.isInterruption(e)) {
        throw new InterruptedException(describe(e)); // the query is being stopped
      }
      throw new PlannerException(describe(e), true, e);
    }
  }

  /** Returns why assignor-bridge is off, or null; if the switch is unreadable, the last result. */
  public String findOffReason() {
    try {
      return setOffReason(readOffReason());
    } catch (IOException | RuntimeException | LinkageError e) { // an incomplete Hadoop file system
      if (Interruptions.isInterruption(e)) { // the query is ending
        Thread.currentThread().interrupt();
      }
      return keepOffReason(describe(e));
    }
  }

  private synchronized String keepOffReason(String problem) {
    if (!isUnreadable) {
      LOG.warn("assignor-bridge stays switched {}: {}", offReason == null ? "on" : "off", problem);
    }
    isUnreadable = true;
    return offReason;
  }

  private synchronized String setOffReason(String reason) {
    if (reason != null && offReason == null) {
      LOG.warn("assignor-bridge is switched off, so Spark's default assignment is used: {}", reason);
    } else if (reason == null && offReason != null) {
      LOG.warn("assignor-bridge is switched on again");
    }
    isUnreadable = false;
    offReason = reason;
    return reason;
  }

  /** Reads the switch without a lock, so that streams of one session do not wait for each other. */
  private String readOffReason() throws IOException {
    String enabled = session.conf().get(ENABLED_SETTING, "true").strip();
    if (enabled.equalsIgnoreCase("false")) {
      return ENABLED_SETTING + " is false";
    }
    if (!enabled.equalsIgnoreCase("true")) {
      throw new IllegalArgumentException(ENABLED_SETTING + " must be true or false, not '" + enabled + "'");
    }
    String file = session.conf().get(FILE_SETTING, "").strip();
    if (!file.isEmpty()) {
      Path path = new Path(file);
      if (path.getFileSystem(session.sessionState().newHadoopConf()).exists(path)) {
        return FILE_SETTING + " exists: " + SecuredParams.maskPassword(file);
      }
    }
    return null;
  }

  private static String describe(Throwable e) {
    boolean isBadValue = e.getMessage() != null && e.getMessage().startsWith(ENABLED_SETTING);
    return isBadValue
        ? e.getMessage()
        : FILE_SETTING + " could not be checked: " + SecuredParams.maskPassword(e.toString());
  }
}
