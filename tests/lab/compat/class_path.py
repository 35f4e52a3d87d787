"""The jars for a Spark of another version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge import ivy
from assignor_bridge.jars import connector_coordinate, find_built_jar

if TYPE_CHECKING:
    from pathlib import Path

#: What Spark does not bring itself: for the class path, where the rest would be there twice.
_ALONE = (
    "assignor-bridge", "spark-sql-kafka-0-10", "spark-token-provider", "kafka-clients",
    "commons-pool2",
)  # fmt: skip


def jars() -> list[Path]:
    """Ours, this version's connector, and what that depends on."""
    return [find_built_jar(), *ivy.fetch(connector_coordinate())]


def alone() -> list[Path]:
    """Those of `jars` that Spark does not bring itself."""
    return [jar for jar in jars() if jar.name.startswith(_ALONE)]
