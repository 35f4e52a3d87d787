"""Spark versions on which the tests have run; no other module lists them."""

from __future__ import annotations

#: Spark versions, oldest first, each with the tested version of its Kafka connector. `make compat`
#: runs on all of them, so a new line adds a version to the tests, messages, and checks.
TESTED_SPARKS = {
    "4.0.4": "4.0.0",
    "4.1.1": "4.1.1",
    "4.1.3": "4.1.1",
    "4.2.0": "4.2.0",
}
INSTALL = f"pip install 'pyspark=={next(reversed(TESTED_SPARKS))}'"


def connector_version(spark_version: str) -> str:
    """Return the Kafka connector version tested with a Spark version, or else Spark's own version.

    >>> connector_version("4.0.4"), connector_version("4.9.1")
    ('4.0.0', '4.9.1')
    """
    return TESTED_SPARKS.get(spark_version, spark_version)


def describe_untested(spark_version: str) -> str | None:
    """Return a warning about an untested Spark version, or None for a tested one."""
    if spark_version in TESTED_SPARKS:
        return None
    versions = ", ".join(TESTED_SPARKS)
    return f"assignor-bridge was not tested on Spark {spark_version} (tested: {versions})"
