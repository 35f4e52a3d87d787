package io.assignorbridge;

/** There is no usable plan; the message says why, with the Python traceback if there is one. */
class PlannerException extends Exception {
  private static final long serialVersionUID = 1L;

  /** Whether the user must change an option: such an error always fails the query. */
  final boolean misuse;

  PlannerException(String message) {
    this(message, false, null);
  }

  PlannerException(String message, Throwable cause) {
    this(message, false, cause);
  }

  PlannerException(String message, boolean misuse, Throwable cause) {
    super(message, cause);
    this.misuse = misuse;
  }

  /** What was not expected: a fault of ours, or a Spark that lacks what we use of it. */
  static PlannerException unexpected(Throwable e, String sparkVersion) {
    return new PlannerException(
        "assignor-bridge "
            + JarVersion.HERE
            + " does not fit Spark "
            + sparkVersion
            + " or has a bug: "
            + e,
        e);
  }

  static String shortened(String text, int most) {
    return text.length() <= most ? text : text.substring(0, most) + "…";
  }
}
