"""Commands, jobs, the Delta sink, metrics, reports, and the embedded broker."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assignor_bridge.errors import AssignorError
    from streaming.delta.spark_settings import configure_delta
    from streaming.kafka.embedded import EmbeddedBroker
    from streaming.metrics.attach import attach as attach_metrics
    from streaming.metrics.config import MetricsConfig
    from streaming.observe.checkpoint_files import read_checkpoint
    from streaming.pipeline.delta.foreach_batch import delta_sink
    from streaming.pipeline.job_errors import ConfigError, JobError, JobTimeoutError
    from streaming.pipeline.job_run import RunningJob, run_job, start_job
    from streaming.pipeline.row_counts import JobResult
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

_MODULE_AND_ATTRIBUTE_BY_NAME = {
    "AssignorError": ("assignor_bridge.errors", "AssignorError"),
    "ConfigError": ("streaming.pipeline.job_errors", "ConfigError"),
    "JobError": ("streaming.pipeline.job_errors", "JobError"),
    "JobResult": ("streaming.pipeline.row_counts", "JobResult"),
    "JobTimeoutError": ("streaming.pipeline.job_errors", "JobTimeoutError"),
    "RunningJob": ("streaming.pipeline.job_run", "RunningJob"),
    "EmbeddedBroker": ("streaming.kafka.embedded", "EmbeddedBroker"),
    "MetricsConfig": ("streaming.metrics.config", "MetricsConfig"),
    "Report": ("streaming.report.query_report", "Report"),
    "attach_metrics": ("streaming.metrics.attach", "attach"),
    "configure_delta": ("streaming.delta.spark_settings", "configure_delta"),
    "delta_sink": ("streaming.pipeline.delta.foreach_batch", "delta_sink"),
    "make_report": ("streaming.report.query_report", "make_report"),
    "read_checkpoint": ("streaming.observe.checkpoint_files", "read_checkpoint"),
    "run_job": ("streaming.pipeline.job_run", "run_job"),
    "start_job": ("streaming.pipeline.job_run", "start_job"),
}


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import a public name when it is used, so that `import streaming` stays fast."""
    if name in _MODULE_AND_ATTRIBUTE_BY_NAME:
        from streaming.extras import explain_missing_extra

        module, attribute = _MODULE_AND_ATTRIBUTE_BY_NAME[name]
        with explain_missing_extra():
            return getattr(import_module(module), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
