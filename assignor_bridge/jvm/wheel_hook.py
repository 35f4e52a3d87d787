"""Refuse to build a wheel or an sdist without the jar: it would fail inside Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarIsThere(BuildHookInterface):  # type: ignore[type-arg]
    """Checks that `make jar` ran before an sdist or a standard (not an editable) wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Stop the build with one line when no jar is there; mark nothing else."""
        del build_data
        jars = Path(self.root, "assignor_bridge", "jars").glob("assignor-bridge-*.jar")
        if version == "standard" and not any(jars):
            message = "assignor_bridge/jars holds no jar: run `make jar` first (or `make wheel`)"
            raise RuntimeError(message)
