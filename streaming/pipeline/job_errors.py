"""Define a job's errors, and summarize Spark's exceptions in one line with a hint."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import AssignorError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+")
_ABORTED = re.compile(r"^Job aborted due to stage failure:.*?\): (?:[\w.$]+(?:Exception|Error): )?")
#: py4j's complete messages for a lost connection; errors raised in Java have more text after them.
_LOST_CONNECTION = re.compile(r"An error occurred while calling \S+|Answer from Java side is empty")
#: Spark's prefix for messages from `raise_error`.
_RAISE_ERROR_PREFIX = "[USER_RAISED_EXCEPTION] "
_CLASS_NAME = re.compile(r"^(?:[\w$]+\.)+([\w$]+)(?:: |$)")
_DELTA_CODE_PREFIX = "[DELTA_"
#: Hadoop's message for a folder that cannot be created.
_MKDIRS = re.compile(r"Mkdirs failed to create (?:file:)?(.*?) \(exists=\w+, cwd=.*\)")
#: Record values that Delta adds to the message of a violated constraint.
_RECORD_VALUES = re.compile(r" by row with values:.*")
_MAX_DELTA_CHARS = 700
#: Maximum number of causes that `drop_java_trace` keeps.
_MAX_CAUSES = 8
#: Characters kept at the start of a long cause (the class), and at its end (query name, run id).
_MAX_START_CHARS = _MAX_END_CHARS = 120
#: Hints for Spark and Kafka messages that do not explain what to do.
_HINTS = {
    r"data may have been (?:lost|missed)|failOnDataLoss": (
        "see: assignor doctor --checkpoint {checkpoint}"
    ),
    r"Not authorized to access topics": (
        "the user needs Describe and Read on each source topic, and Describe and Write on each "
        "sink and dead-letter topic"
    ),
    "STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE": (
        "the checkpoint's state was written by 'dedupe' or a transform with other columns, or by a "
        "version whose 'dedupe' lost an upsert's deletes: give the job a new checkpoint (an upsert "
        "can safely read all records again)"
    ),
    # Java's message for a list of objects of a missing class; Spark 4.2 names the class.
    r"DefaultSerializationProxy to field .*DataSourceRDDPartition"
    r"|ClassNotFoundException: io\.assignorbridge\.": (
        "the executors may lack the assignor-bridge jar: add the flags that `assignor jars` prints"
    ),
    r"^long overflow$": (
        "a time is out of range: a producer may send nanoseconds as Kafka's timestamp, which must "
        "be in milliseconds"
    ),
    r"java\.security file|Too many open files": "raise the open-file limit: ulimit -n 4096",
    r"Not authorized to access group": "the user needs Read on the Group",
    r"Cluster authorization failed": (
        "the user needs IdempotentWrite on the Cluster, or kafka.enable.idempotence: false"
    ),
}


class ConfigError(OptionError):
    """The job's config is invalid; the user must change it."""


class JobError(AssignorError):
    """A job failed for a reason outside its config."""


class JobTimeoutError(JobError):
    """A job did not end within its timeout."""


class TableError(ValueError):
    """A query could not write its rows to its table or topic, or would lose or repeat some."""


@contextlib.contextmanager
def report_failure(
    log_warning: Callable[[str], None], redact: Callable[[str], str] = str
) -> Iterator[None]:
    """Suppress any exception in the block; log a redacted one-line summary of it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        log_warning(redact(summarize(error)))


def summarize(error: BaseException) -> str:
    """Return the first line of an exception's message; for Spark's, of the innermost cause.

    A Delta error keeps all lines, joined to one. A lost JVM and invalid UTF-8 get their own texts.

    >>> summarize(ValueError("no such thing" + chr(10) + "  at all"))
    'no such thing'
    """
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, ConnectionError) or _LOST_CONNECTION.fullmatch(str(error)):
        return "Spark's JVM has ended: it was killed, or ran out of memory"
    innermost_error: Any = error
    while getattr(innermost_error, "_cause", None) is not None:
        innermost_error = innermost_error._cause
    text = getattr(innermost_error, "_desc", None)
    if text is None:
        throwable = getattr(innermost_error, "java_exception", None)
        text = _get_java_message(throwable) if throwable is not None else str(innermost_error)
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    line = lines[0] if lines else type(innermost_error).__name__
    if _DELTA_CODE_PREFIX in line:  # its other lines have names and the fix
        line = _RECORD_VALUES.sub("", " ".join(lines))[:_MAX_DELTA_CHARS]
    line = _SQL_STATE.sub("", _ABORTED.sub("", line))
    line = line.strip().rstrip(";").removeprefix(_RAISE_ERROR_PREFIX)
    line = _MKDIRS.sub(r"no permission to create the folder \1, or a file is in its place", line)
    match = _CLASS_NAME.match(line)
    return line[match.end() :] or match[1] if match else line


def _get_java_message(throwable: Any) -> str:
    while throwable.getCause() is not None:
        throwable = throwable.getCause()
    message = throwable.getMessage()
    if not message or " " in message:
        return str(message or throwable.toString())
    return f"{throwable.getClass().getSimpleName()}: {message}"  # such as a missing class's name


def drop_java_trace(error: Exception) -> Exception:
    """Return a Java error without its trace, so that Spark can recognize an interruption.

    Spark matches the text with a regular expression that needs a stack frame for each character
    (`StreamExecution.PROXY_ERROR`), and a Java trace overflows the stack. The returned text keeps
    what `StreamExecution.isInterruptionException` (Spark 4.1.1) searches for: the class of each
    cause, and "cancelled" with the run id. An error that is not from Java is returned unchanged.
    """
    throwable = getattr(error, "java_exception", None)
    if throwable is None:
        return error
    causes: list[str] = []
    while throwable is not None and len(causes) < _MAX_CAUSES:
        cause = str(throwable.toString()).partition("\n")[0]
        if len(cause) > _MAX_START_CHARS + _MAX_END_CHARS:
            cause = f"{cause[:_MAX_START_CHARS]} … {cause[-_MAX_END_CHARS:]}"
        causes.append(cause)
        throwable = throwable.getCause()
    problem = "An error occurred while calling the Delta sink"
    return JobError(f"py4j.protocol.Py4JJavaError: {problem}: {'; '.join(causes)}")


def add_hint(message: str, checkpoint: str | None) -> str:
    """Append the first matching hint to a message, unless it needs an absent checkpoint."""
    for pattern, hint in _HINTS.items():
        if re.search(pattern, message, re.IGNORECASE):
            if checkpoint is None and "{checkpoint}" in hint:
                return message
            return f"{message}; {hint.replace('{checkpoint}', checkpoint or '')}"
    return message
