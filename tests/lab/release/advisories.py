"""Look for what we depend on in a downloaded export of OSV's advisories: needs no network.

An export is a zip with one advisory in JSON a file; OSV has one for each ecosystem (PyPI, Maven).
An audit can be no fresher than its file, so the newest advisory's date is given with the result.
"""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.lab.release.dependencies import Dependency


def audit(exports: Iterable[Path], used: Iterable[Dependency]) -> tuple[list[str], str]:
    """Return a line for each advisory about what is used, and the newest advisory's date."""
    by_name = {(each.ecosystem, _plain(each.ecosystem, each.name)): each for each in used}
    lines, newest = [], ""
    for advisory in (a for export in exports for a in _read(export)):
        newest = max(newest, advisory.get("modified", "")[:10])
        if "withdrawn" in advisory:
            continue
        for entry in advisory.get("affected", ()):
            package = entry.get("package", {})
            ecosystem = package.get("ecosystem", "")
            each = by_name.get((ecosystem, _plain(ecosystem, package.get("name", ""))))
            if each is not None and _is_affected(entry, each.version):
                names = ", ".join([advisory["id"], *advisory.get("aliases", ())])
                lines.append(f"{each.purl}: {names}: {advisory.get('summary', 'no summary')}")
    return sorted(set(lines)), newest


def _read(export: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(export) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                advisory = json.loads(archive.read(name))
                if not isinstance(advisory, dict) or "id" not in advisory:
                    raise ValueError(f"{name} in {export} is no advisory")
                yield advisory


def _plain(ecosystem: str, name: str) -> str:
    return canonicalize_name(name) if ecosystem == "PyPI" else name


def _is_affected(entry: dict[str, Any], version: str) -> bool:
    """Whether a version is listed, or lies in a range of versions."""
    if version in entry.get("versions", ()):
        return True
    ranges = [r["events"] for r in entry.get("ranges", ()) if r.get("type") == "ECOSYSTEM"]
    return any(_is_within(events, version) for events in ranges)


def _is_within(events: Iterable[dict[str, str]], version: str) -> bool:
    """Whether the last event that is not after the version opens a range; they come in any order.

    Versions that cannot be compared (Maven has words in some) count as affected: somebody looks.
    """
    try:
        ours = Version(version)
        passed = False
        edges = [(Version(at), kind) for event in events for kind, at in event.items()]
        for edge, kind in sorted(edges):
            if kind == "introduced" and edge <= ours:
                passed = True
            elif (kind == "fixed" and edge <= ours) or (kind == "last_affected" and edge < ours):
                passed = False
    except InvalidVersion:
        return True
    return passed
