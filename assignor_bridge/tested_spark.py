"""The versions of Spark that the tests ran on: the one list of them."""

from __future__ import annotations

#: Oldest first, each with the version of Spark's Kafka connector that ran there. `make compat` runs
#: on all of them, so a line here adds a version to the tests, the messages, and the checks.
TESTED_SPARKS = {
    "4.0.4": "4.0.0",
    "4.1.1": "4.1.1",
    "4.1.3": "4.1.1",
    "4.2.0": "4.2.0",
}
INSTALL = f"pip install 'pyspark=={next(reversed(TESTED_SPARKS))}'"


def connector_version(spark: str) -> str:
    """Return the version of the Kafka connector for a Spark.

    It is the one that was tested with that Spark; an untested Spark takes its own version.

    >>> connector_version("4.0.4"), connector_version("4.9.1")
    ('4.0.0', '4.9.1')
    """
    return TESTED_SPARKS.get(spark, spark)


def describe_untested(spark: str) -> str | None:
    """Return a sentence about a Spark that the tests did not run on; None for a tested one."""
    if spark in TESTED_SPARKS:
        return None
    return f"assignor-bridge was not tested on Spark {spark} (tested: {', '.join(TESTED_SPARKS)})"
