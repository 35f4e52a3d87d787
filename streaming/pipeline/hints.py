"""What to do about a query's failure, where Spark's or Kafka's own words leave that open."""

from __future__ import annotations

import re

#: A failure's words, and what is to be done.
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
    (r"Not authorized to access group", "the user needs Read on the Group"),
    (
        r"Cluster authorization failed",
        "the user needs IdempotentWrite on the Cluster, or kafka.enable.idempotence: false",
    ),
)


def with_hint(message: str, checkpoint: str | None) -> str:
    """Add what can be done about it, where that is known.

    Parameters
    ----------
    message
        What the query failed with, in one line.
    checkpoint
        Its checkpoint, if it has one.
    """
    for pattern, hint in _HINTS:
        if re.search(pattern, message, re.IGNORECASE):
            if checkpoint is None and "{checkpoint}" in hint:
                return message
            return f"{message}; {hint.replace('{checkpoint}', checkpoint or '')}"
    return message
