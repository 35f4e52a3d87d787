"""Decide which Spark task reads which Kafka offsets of a micro-batch.

`configure_spark` adds the bridge to a `SparkSession.builder`. The planner works on plain data
without Spark: see `model`, `assignors` and `planner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assignor_bridge.session import configure_spark

__version__: str
__all__ = ["__version__", "configure_spark"]


def __getattr__(name: str) -> Any:
    """Return `configure_spark` or `__version__`, loaded on access: the planner needs neither."""
    if name == "configure_spark":
        from assignor_bridge.session import configure_spark

        return configure_spark
    if name == "__version__":
        from assignor_bridge.version import read_version

        return read_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
