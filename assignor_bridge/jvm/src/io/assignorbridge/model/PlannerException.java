package io.assignorbridge.model;

/** Invalid options, or a failure to plan or limit a batch; may contain a Python traceback. */
public class PlannerException extends Exception {
  private static final long serialVersionUID = 1L;

  /** Whether the user must change an option. Such an error fails the query when it starts. */
  public final boolean misuse;

  public PlannerException(String message) {
    this(message, false, null);
  }

  public PlannerException(String message, Throwable cause) {
    this(message, false, cause);
  }

  public PlannerException(String message, boolean misuse, Throwable cause) {
    super(message, cause);
    this.misuse = misuse;
  }

  /** Returns the exception for a bug in assignor-bridge or an incompatible Spark. */
  public static PlannerException fromUnexpected(Throwable e, String sparkVersion) {
    return new PlannerException(
        "assignor-bridge " + JarVersion.CURRENT + " is incompatible with Spark " + sparkVersion
            + " or has a bug: " + e,
        e);
  }

  public static String shorten(String text, int maxChars) {
    return text.length() <= maxChars ? text : text.substring(0, maxChars) + "…";
  }
}
