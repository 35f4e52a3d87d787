"""What a user runs: the command line, the embedded broker, the demo, reports and pipelines."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaming.delta.session import configure_delta
    from streaming.kafka.embedded import EmbeddedBroker
    from streaming.metrics.attach import attach as attach_metrics
    from streaming.metrics.config import MetricsConfig
    from streaming.observe.checkpoint_files import read_checkpoint
    from streaming.pipeline.run import run_job, start_job

__all__ = [
    "EmbeddedBroker",
    "MetricsConfig",
    "attach_metrics",
    "configure_delta",
    "read_checkpoint",
    "run_job",
    "start_job",
]

_HOMES = {
    "EmbeddedBroker": ("streaming.kafka.embedded", "EmbeddedBroker"),
    "MetricsConfig": ("streaming.metrics.config", "MetricsConfig"),
    "attach_metrics": ("streaming.metrics.attach", "attach"),
    "configure_delta": ("streaming.delta.session", "configure_delta"),
    "read_checkpoint": ("streaming.observe.checkpoint_files", "read_checkpoint"),
    "run_job": ("streaming.pipeline.run", "run_job"),
    "start_job": ("streaming.pipeline.run", "start_job"),
}


def __getattr__(name: str) -> Any:
    """Import each where it is used first: `import streaming` stays light."""
    if name in _HOMES:
        module, attribute = _HOMES[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
