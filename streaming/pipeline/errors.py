"""The errors of a job, and Spark's exceptions in one line: the innermost cause, and what to do."""

from __future__ import annotations

import re
from typing import Any

from assignor_bridge.errors import AssignorError, OptionError

_STATE = re.compile(r"\s*SQLSTATE: \w+")
_TASK = re.compile(r"^Job aborted due to stage failure:.*?\): (?:[\w.$]+(?:Exception|Error): )?")
#: py4j's words for a call whose connection ended: Java's own errors have more after them.
_UNANSWERED = re.compile(r"An error occurred while calling \S+|Answer from Java side is empty")
#: What Spark puts before our own words in `raise_error`.
_OURS = "[USER_RAISED_EXCEPTION] "
_CLASS = re.compile(r"^(?:[\w$]+\.)+([\w$]+)(?:: |$)")
_DELTA = "[DELTA_"
#: Hadoop's words for a folder that cannot be made.
_MKDIRS = re.compile(r"Mkdirs failed to create (?:file:)?(.*?) \(exists=\w+, cwd=.*\)")
#: What Delta adds to a violated constraint: the record itself.
_VALUES = re.compile(r" by row with values:.*")
_LONGEST = 700
#: Limits of the text for Spark's search: causes of a Java exception, and characters of each at
#: its start (the class) and at its end (the run id, after a query name of any length).
_MAX_CAUSES, _MAX_START, _MAX_END = 8, 120, 120
#: What to do about a failure where Spark's or Kafka's own words leave that open.
_HINTS = (
    (
        r"data may have been (?:lost|missed)|failOnDataLoss",
        "see: assignor doctor --checkpoint {checkpoint}",
    ),
    (
        r"Not authorized to access topics",
        "the user needs Describe and Read on each Topic of a source, Describe and Write on that of "
        "a sink or of dead letters",
    ),
    (
        "STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE",
        "what 'dedupe' or a transform has kept in the checkpoint is of other columns, or of a "
        "version whose 'dedupe' lost an upsert's deletes: give the job a new checkpoint (an upsert "
        "then reads all again and changes nothing)",
    ),
    (
        # Java's words for a list whose elements are of a class that is not there; 4.2 names it.
        r"DefaultSerializationProxy to field .*DataSourceRDDPartition"
        r"|ClassNotFoundException: io\.assignorbridge\.",
        "do the executors lack the jar of assignor-bridge? Add it by the flags of: assignor jars",
    ),
    (
        r"^long overflow$",
        "a time is out of range: does a producer send nanoseconds as Kafka's timestamp, which is "
        "in milliseconds?",
    ),
    (r"java\.security file|Too many open files", "raise the limit of open files: ulimit -n 4096"),
    (r"Not authorized to access group", "the user needs Read on the Group"),
    (
        r"Cluster authorization failed",
        "the user needs IdempotentWrite on the Cluster, or kafka.enable.idempotence: false",
    ),
)


class ConfigError(OptionError):
    """A job's config that the user must change."""


class JobError(AssignorError):
    """A job that failed for a reason outside its config."""


class JobTimeoutError(JobError):
    """A job that did not end within its timeout."""


class TableError(ValueError):
    """A table, or a frame for it, that cannot be written as the sink asks."""


def first_line(error: BaseException) -> str:
    """Return the innermost cause of an exception of Spark's, or of Python's, as one line.

    >>> first_line(ValueError("no such thing" + chr(10) + "  at all"))
    'no such thing'
    """
    if isinstance(error, UnicodeDecodeError):
        return "not text in UTF-8"
    if isinstance(error, ConnectionError) or _UNANSWERED.fullmatch(str(error)):
        return "Spark's JVM has ended: was it killed, or out of memory?"
    innermost: Any = error
    while getattr(innermost, "_cause", None) is not None:
        innermost = innermost._cause
    text = getattr(innermost, "_desc", None)
    if text is None:
        java = getattr(innermost, "java_exception", None)
        text = _java_cause(java) if java is not None else str(innermost)
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    line = lines[0] if lines else type(innermost).__name__
    if _DELTA in line:  # what to do, and names, stand on its further lines
        line = _VALUES.sub("", " ".join(lines))[:_LONGEST]
    line = _STATE.sub("", _TASK.sub("", line)).strip().rstrip(";").removeprefix(_OURS)
    line = _MKDIRS.sub(r"no permission to create the folder \1, or a file is in its place", line)
    match = _CLASS.match(line)
    return line[match.end() :] or match[1] if match else line


def _java_cause(java: Any) -> str:
    while java.getCause() is not None:
        java = java.getCause()
    message = java.getMessage()
    if not message or " " in message:
        return str(message or java.toString())
    return f"{java.getClass().getSimpleName()}: {message}"  # such as a class that is not found


def without_java_trace(error: Exception) -> Exception:
    """Return an error for Spark to search for an interruption when it stops a query.

    Spark matches the text with a regular expression (`StreamExecution.PROXY_ERROR`) that needs a
    stack frame for each character, and a Java trace overflows the stack. The returned text keeps
    what `StreamExecution.isInterruptionException` (Spark 4.1.1) looks for: the class of each
    cause, and the words "cancelled" and the query's run id of a cancelled job.
    """
    java = getattr(error, "java_exception", None)
    if java is None:
        return error
    causes: list[str] = []
    while java is not None and len(causes) < _MAX_CAUSES:
        cause = str(java.toString()).partition("\n")[0]
        if len(cause) > _MAX_START + _MAX_END:
            cause = f"{cause[:_MAX_START]} … {cause[-_MAX_END:]}"
        causes.append(cause)
        java = java.getCause()
    called = "An error occurred while calling the Delta sink"
    return JobError(f"py4j.protocol.Py4JJavaError: {called}: {'; '.join(causes)}")


def with_hint(message: str, checkpoint: str | None) -> str:
    """Add what can be done about a query's failure, where that is known."""
    for pattern, hint in _HINTS:
        if re.search(pattern, message, re.IGNORECASE):
            if checkpoint is None and "{checkpoint}" in hint:
                return message
            return f"{message}; {hint.replace('{checkpoint}', checkpoint or '')}"
    return message
