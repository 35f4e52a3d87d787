"""Refuse to build a wheel or an sdist without the jar of this version, which Spark needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RequireJarHook(BuildHookInterface):  # type: ignore[type-arg]
    """Requires the output of `make jar` for an sdist or a standard (not editable) wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Stop the build with a one-line error if the jar of this version is missing."""
        del build_data
        required_version = self.metadata.version
        jar_names = [path.name for path in Path(self.root, "assignor_bridge/jars").glob("*.jar")]
        has_jar = any(f"-bridge-{required_version}-" in name for name in jar_names)
        if version == "standard" and not has_jar:
            message = (
                f"assignor_bridge/jars has no jar of version {required_version} "
                f"({', '.join(jar_names) or 'none'}): run `make jar` first (or `make wheel`)"
            )
            raise RuntimeError(message)
