package io.assignorbridge.model;

/** There is no usable plan; the message says why, with the Python traceback if there is one. */
public class PlannerException extends Exception {
  private static final long serialVersionUID = 1L;

  /** Whether the user must change an option: such an error always fails the query. */
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

  /** What was not expected: a fault of ours, or a Spark that lacks what we use of it. */
  public static PlannerException unexpected(Throwable e, String sparkVersion) {
    return new PlannerException(
        "assignor-bridge "
            + JarVersion.HERE
            + " does not fit Spark "
            + sparkVersion
            + " or has a bug: "
            + e,
        e);
  }

  public static String shortened(String text, int most) {
    return text.length() <= most ? text : text.substring(0, most) + "…";
  }
}
