package io.assignorbridge;

/** The planner gave no usable answer; the message says why, with the Python traceback if there is one. */
final class PlannerException extends Exception {
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
}
