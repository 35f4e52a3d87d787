"""Decides who reads which Kafka offsets in a Spark micro-batch, and carries the decision to Spark.

`configure_spark` adds the bridge to a `SparkSession.builder`; the rest is plain data: see `model`,
`assignors` and `planner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assignor_bridge.session import configure_spark

__version__ = "0.1.0"
__all__ = ["__version__", "configure_spark"]


def __getattr__(name: str) -> Any:
    """Import `configure_spark` when it is asked for: the planner process needs none of it."""
    if name == "configure_spark":
        from assignor_bridge.session import configure_spark

        return configure_spark
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
