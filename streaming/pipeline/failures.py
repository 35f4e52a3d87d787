"""Spark's exceptions in one line: the innermost cause, without traces and plans."""

from __future__ import annotations

import re
from typing import Any

from assignor_bridge.errors import AssignorError

_STATE = re.compile(r"\s*SQLSTATE: \w+")
_TASK = re.compile(r"^Job aborted due to stage failure:.*?\): (?:[\w.$]+(?:Exception|Error): )?")
#: What Spark puts before our own words in `raise_error`.
_OURS = "[USER_RAISED_EXCEPTION] "
_CLASS = re.compile(r"^(?:[\w$]+\.)+([\w$]+)(?:: |$)")


class JobError(AssignorError):
    """A job that failed for a reason outside its config."""


def first_line(error: BaseException) -> str:
    """Give the innermost cause of an exception of Spark's, or of Python's, as one line.

    >>> first_line(ValueError("no such thing" + chr(10) + "  at all"))
    'no such thing'
    """
    innermost: Any = error
    while getattr(innermost, "_cause", None) is not None:
        innermost = innermost._cause
    text = getattr(innermost, "_desc", None)
    if text is None:
        java = getattr(innermost, "java_exception", None)
        text = _java_cause(java) if java is not None else str(innermost)
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    line = lines[0] if lines else type(innermost).__name__
    line = _STATE.sub("", _TASK.sub("", line)).strip().rstrip(";").removeprefix(_OURS)
    match = _CLASS.match(line)
    return line[match.end() :] or match[1] if match else line


def _java_cause(java: Any) -> str:
    while java.getCause() is not None:
        java = java.getCause()
    return str(java.getMessage() or java.toString())
