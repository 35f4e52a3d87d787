"""Refuse to build a wheel or an sdist without the jar of this version: Spark needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarIsThere(BuildHookInterface):  # type: ignore[type-arg]
    """Checks that `make jar` ran before an sdist or a standard (not an editable) wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Stop the build with one line if the jar of this version does not exist."""
        del build_data
        ours = self.metadata.version
        jars = [path.name for path in Path(self.root, "assignor_bridge/jars").glob("*.jar")]
        if version == "standard" and not any(f"-bridge-{ours}-" in name for name in jars):
            message = (
                f"assignor_bridge/jars has no jar of version {ours} ({', '.join(jars) or 'none'}): "
                "run `make jar` first (or `make wheel`)"
            )
            raise RuntimeError(message)
