"""What this package brings to a machine: Python packages and jars, with versions and licences."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from assignor_bridge import ivy
from assignor_bridge.jars import connector_coordinate
from streaming.delta.spark_settings import delta_coordinate

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
OURS = "assignor-bridge"
#: What we may depend on: none of them asks anything of those who only use a package.
ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CDDL-1.1", "EPL-2.0", "ISC",
    "MIT", "MPL-2.0", "PSF-2.0", "Zlib", "GPL-2.0-with-classpath-exception",
}  # fmt: skip
#: How packages name their licences that do not give an SPDX expression.
_SPDX = {
    "apache license, version 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "the apache license, version 2.0": "Apache-2.0",
    "the apache software license, version 2.0": "Apache-2.0",
    "http://www.apache.org/licenses/license-2.0": "Apache-2.0",
    "mit license": "MIT",
    "the mit license": "MIT",
    "bsd license": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "cc0": "CC0-1.0",
    "psfl": "PSF-2.0",
    "eclipse public license, version 2.0": "EPL-2.0",
    "eclipse distribution license - v 1.0": "BSD-3-Clause",
    "cddl + gplv2 with classpath exception": "CDDL-1.1 OR GPL-2.0-with-classpath-exception",
}

#: Read in the LICENSE of packages whose metadata names none.
_IN_FILE = {"promql-parser": "MIT"}
#: Pinned, but installed by `make fuzz` alone.
_OF_FUZZING = {"atheris"}


@dataclass(frozen=True, slots=True)
class Dependency:
    """A package or a jar."""

    ecosystem: str  # as OSV names it: PyPI or Maven
    name: str  # group:artifact of a jar
    version: str
    licence: str
    needs: tuple[str, ...] = ()

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:{self.ecosystem.lower()}/{self.name.replace(':', '/')}@{self.version}"

    @property
    def not_allowed(self) -> list[str]:
        """The licences that it names and that are not in the list; all of one that names none."""
        named = re.split(r"[\s()]+|\b(?:AND|OR|WITH)\b", self.licence)
        return [word for word in named if word and word not in ALLOWED] or (
            [] if self.licence else ["none named"]
        )


def pinned() -> Iterator[Requirement]:
    """Read the lines of constraints.txt that are installed on this Python and this system."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        requirement = Requirement(line)
        is_here = requirement.marker is None or requirement.marker.evaluate()
        if is_here and requirement.name not in _OF_FUZZING:
            yield requirement


def installed(name: str, *extras: str) -> Dependency:
    """Describe a Python package that is installed here, with what its extras add."""
    about = importlib.metadata.distribution(name)
    needs = {
        canonicalize_name(need.name)
        for need in map(Requirement, about.requires or ())
        if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in ("", *extras))
    }
    licence = _licence(about.metadata)
    return Dependency("PyPI", canonicalize_name(name), about.version, licence, tuple(sorted(needs)))


def packages() -> list[Dependency]:
    """Return what pip installs with this package and its extras `cli` and `delta`."""
    wanted, found = [*installed(OURS, "cli", "delta").needs], {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = installed(name)
            wanted += found[name].needs
    return [found[name] for name in sorted(found)]


def jars() -> list[Dependency]:
    """Return what Spark fetches for the option, and for `assignor run`."""
    files = {
        jar.name: jar for c in (connector_coordinate(), delta_coordinate()) for jar in ivy.fetch(c)
    }
    return sorted(map(_of_jar, files.values()), key=lambda jar: jar.purl)


def _of_jar(jar: Path) -> Dependency:
    """Find what Ivy noted when it fetched a jar."""
    cache = ivy.cache_folder() / "ivy"
    for note in cache.glob("*/*/ivy-*.xml"):
        version = note.stem.removeprefix("ivy-")
        if jar.name == f"{note.parent.name}-{version}.jar":
            info = ElementTree.parse(note).getroot().find("info")  # noqa: S314  (written by Ivy)
            assert info is not None
            licences = [_spdx(entry.get("name", "")) for entry in info.iter("license")]
            name = f"{info.get('organisation')}:{info.get('module')}"
            return Dependency("Maven", name, version, " OR ".join(dict.fromkeys(licences)))
    raise LookupError(f"{jar} is not in {cache}: remove {jar.parent} and build the jar again")


def _licence(about: importlib.metadata.PackageMetadata) -> str:
    if expression := about.get("License-Expression"):
        return str(expression)
    kinds = [str(c) for c in about.get_all("Classifier") or () if c.startswith("License :: OSI")]
    named = [str(about.get("License") or ""), *(kind.rpartition(" :: ")[2] for kind in kinds)]
    known = [_spdx(name) for name in named if _spdx(name) in ALLOWED]
    return known[0] if known else next(filter(None, named), _IN_FILE.get(about["Name"], ""))


def _spdx(name: str) -> str:
    return _SPDX.get(name.strip().lower(), name.strip())
