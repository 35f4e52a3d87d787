"""The jars for a Spark of another version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge import ivy
from assignor_bridge.jars import built_jar, connector_coordinate

if TYPE_CHECKING:
    from pathlib import Path

CONNECTOR = "spark-sql-kafka-0-10"
#: What Spark does not bring itself: for the class path, where the rest would be there twice.
_ALONE = ("assignor-bridge", CONNECTOR, "spark-token-provider", "kafka-clients", "commons-pool2")
STANDS_IN = f"org.apache.spark:{CONNECTOR}_2.13:4.0.0"


def jars() -> list[Path]:
    """Ours, this version's connector, and what Spark 4.0's connector depends on.

    The token provider of 4.1 and 4.2 is not in every mirror of Maven's repository; 4.0's stands in.
    """
    needed = [jar for jar in ivy.fetch(STANDS_IN) if not jar.name.startswith(CONNECTOR)]
    return [built_jar(), *ivy.fetch(connector_coordinate(), transitive=False), *needed]


def alone() -> list[Path]:
    """Those of `jars` that Spark does not bring itself."""
    return [jar for jar in jars() if jar.name.startswith(_ALONE)]
