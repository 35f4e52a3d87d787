"""Command line, embedded broker, demo, reports, and pipelines."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assignor_bridge.errors import AssignorError
    from streaming.delta.session import configure_delta
    from streaming.kafka.embedded import EmbeddedBroker
    from streaming.metrics.attach import attach as attach_metrics
    from streaming.metrics.config import MetricsConfig
    from streaming.observe.checkpoint_files import read_checkpoint
    from streaming.pipeline.delta.foreach_batch import delta_sink
    from streaming.pipeline.errors import ConfigError, JobError, JobTimeoutError
    from streaming.pipeline.progress import JobResult
    from streaming.pipeline.run import RunningJob, run_job, start_job
    from streaming.report.query_report import Report, make_report

__all__ = [
    "AssignorError",
    "ConfigError",
    "EmbeddedBroker",
    "JobError",
    "JobResult",
    "JobTimeoutError",
    "MetricsConfig",
    "Report",
    "RunningJob",
    "attach_metrics",
    "configure_delta",
    "delta_sink",
    "make_report",
    "read_checkpoint",
    "run_job",
    "start_job",
]

_MODULE_AND_NAME = {
    "AssignorError": ("assignor_bridge.errors", "AssignorError"),
    "ConfigError": ("streaming.pipeline.errors", "ConfigError"),
    "JobError": ("streaming.pipeline.errors", "JobError"),
    "JobResult": ("streaming.pipeline.progress", "JobResult"),
    "JobTimeoutError": ("streaming.pipeline.errors", "JobTimeoutError"),
    "RunningJob": ("streaming.pipeline.run", "RunningJob"),
    "EmbeddedBroker": ("streaming.kafka.embedded", "EmbeddedBroker"),
    "MetricsConfig": ("streaming.metrics.config", "MetricsConfig"),
    "Report": ("streaming.report.query_report", "Report"),
    "attach_metrics": ("streaming.metrics.attach", "attach"),
    "configure_delta": ("streaming.delta.session", "configure_delta"),
    "delta_sink": ("streaming.pipeline.delta.foreach_batch", "delta_sink"),
    "make_report": ("streaming.report.query_report", "make_report"),
    "read_checkpoint": ("streaming.observe.checkpoint_files", "read_checkpoint"),
    "run_job": ("streaming.pipeline.run", "run_job"),
    "start_job": ("streaming.pipeline.run", "start_job"),
}


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import a public name on its first use, so that `import streaming` stays fast."""
    if name in _MODULE_AND_NAME:
        from streaming.extras import explain_missing_extra

        module, attribute = _MODULE_AND_NAME[name]
        with explain_missing_extra():
            return getattr(import_module(module), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
