"""The manifests of Kubernetes in the docs are such as its API server takes, to the last field."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

DOCS = Path(__file__).parents[2] / "docs"


def manifests() -> dict[str, dict[str, Any]]:
    """Return those of Kubernetes itself, without an operator's, by page and number."""
    found: dict[str, dict[str, Any]] = {}
    for page in sorted(DOCS.glob("*.md")):
        blocks = re.findall(
            r"^ *```yaml\n(.*?)^ *```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        for block in map(textwrap.dedent, blocks):
            if re.search(r"^apiVersion: (?!sparkoperator)", block, re.MULTILINE):
                found[f"{page.stem}-{len(found)}"] = yaml.safe_load(block)
    return found


def test_there_are_some() -> None:
    kinds = sorted(manifest["kind"] for manifest in manifests().values())
    assert kinds == ["ConfigMap", "Pod", "Pod"]


@pytest.mark.parametrize("version", ["1.33", "1.37"])
@pytest.mark.parametrize("name", manifests())
def test_a_manifest_is_valid(name: str, version: str) -> None:
    assert kubernetes_validate.validate(manifests()[name], version, strict=True) == version


def test_the_image_has_what_the_option_needs_and_no_second_pyspark() -> None:
    """It is installed without what the wheel depends on: pyspark is in the image."""
    page = (DOCS / "deploy.md").read_text("utf-8")
    [install] = re.findall(r"pip install --no-cache-dir ([^\\]+) \\\n && (.+--no-deps.+)", page)
    named = set(install[0].split())
    program = (
        "import sys, assignor_bridge.session, assignor_bridge.worker\n"
        "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    distributions = importlib.metadata.packages_distributions()
    imported = {
        distributions[module][0]
        for module in done.stdout.decode().split()
        if module in distributions
    }
    ours = {"assignor-bridge", "setuptools", "typing_extensions"}  # what .venv itself brings
    assert named == imported - ours


def test_an_image_for_jobs_has_deltas_python_package_too() -> None:
    """Jars in Spark's folder are on no Python's path, so `assignor run` found no module `delta`."""
    page = (DOCS / "deploy.md").read_text("utf-8")
    [installed] = re.findall(r"For `assignor run` in the image:\s`pip install ([^`]+)`", page)
    [delta] = [r for r in importlib.metadata.requires("assignor-bridge") or () if "delta" in r][:1]
    assert re.split(r"[<>=;]", delta)[0] in installed.split()


def test_the_drivers_memory_has_room_for_the_planner() -> None:
    """40% is what Spark takes for Python; the setting replaces it."""
    page = (DOCS / "deploy.md").read_text("utf-8")
    [(memory, overhead)] = re.findall(
        r"driver.memory=(\d+)g --conf spark.driver.memoryOverhead=(\d+)m", page
    )
    assert int(overhead) >= int(memory) * 1024 * 0.4 + 40


def test_one_with_a_misspelt_field_is_not() -> None:
    pod = next(m for m in manifests().values() if m["kind"] == "Pod")
    pod["spec"]["containers"][0]["enviroment"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="enviroment"):
        kubernetes_validate.validate(pod, "1.37", strict=True)
