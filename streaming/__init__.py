"""What a user runs: the command line, the embedded broker, the demo, reports and pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaming.pipeline.run import run_job, start_job

__all__ = ["run_job", "start_job"]


def __getattr__(name: str) -> Any:
    """Import the pipelines when they are asked for: `import streaming` stays light."""
    if name in __all__:
        from streaming.pipeline import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
