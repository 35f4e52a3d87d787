"""The manifests of Kubernetes in the docs are such as its API server takes, to the last field."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

DOCS = Path(__file__).parents[2] / "docs"


def manifests() -> dict[str, dict[str, Any]]:
    """Those in fenced blocks of YAML, by page and number."""
    found: dict[str, dict[str, Any]] = {}
    for page in sorted(DOCS.glob("*.md")):
        blocks = re.findall(
            r"^ *```yaml\n(.*?)^ *```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        for block in map(textwrap.dedent, blocks):
            if "apiVersion:" in block:
                found[f"{page.stem}-{len(found)}"] = yaml.safe_load(block)
    return found


def test_there_are_some() -> None:
    kinds = sorted(manifest["kind"] for manifest in manifests().values())
    assert kinds == ["ConfigMap", "Pod", "Pod"]


@pytest.mark.parametrize("version", ["1.33", "1.37"])
@pytest.mark.parametrize("name", manifests())
def test_a_manifest_is_valid(name: str, version: str) -> None:
    assert kubernetes_validate.validate(manifests()[name], version, strict=True) == version


def test_one_with_a_misspelt_field_is_not() -> None:
    pod = next(m for m in manifests().values() if m["kind"] == "Pod")
    pod["spec"]["containers"][0]["enviroment"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="enviroment"):
        kubernetes_validate.validate(pod, "1.37", strict=True)
