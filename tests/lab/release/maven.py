"""The jars as Maven artifacts: jar, sources, POM and their checksums, as a repository has them.

There are two: the jar for Spark, and `LagAwareAssignor` alone for consumers without Spark.

Their version is that of the project alone, as for the wheel: what is released once never changes.
(In a user's cache it ends with a hash of the sources, since a checkout's jar does change.)
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge import __version__, ivy, jars
from assignor_bridge.jvm import build as jar_build

if TYPE_CHECKING:
    from collections.abc import Mapping

COORDINATE = f"{jars.GROUP}:{jars.ARTIFACT}:{__version__}"
NAME = f"{jars.ARTIFACT}-{__version__}"
ASSIGNOR_ARTIFACT = "lag-aware-assignor"
ASSIGNOR_COORDINATE = f"{jars.GROUP}:{ASSIGNOR_ARTIFACT}:{__version__}"
_ASSIGNOR_DESCRIPTION = "Assigns partitions by lag in consumer groups; needs kafka-clients"
_ASSIGNOR = "io/assignorbridge/LagAwareAssignor"
#: Those that Maven and Ivy compare a download with.
CHECKSUMS = ("md5", "sha1")

_SETTINGS = """<ivysettings><settings defaultResolver="released"/><resolvers>
<ibiblio name="released" m2compatible="true" root="{root}"/></resolvers></ivysettings>
"""
_FETCH = "import sys; from assignor_bridge import ivy; print(*ivy.fetch(sys.argv[1]), sep='\\n')"


def write_repository(repository: Path) -> Path:
    """Write both artifacts into a repository; return the folder of the jar for Spark."""
    built = jar_build.build()
    folder = jars.write_repository(repository, built.read_bytes(), __version__)
    jar_build.pack_sources(folder / f"{NAME}-sources.jar")
    _write_checksums(folder)
    _lay_out_assignor(repository, built)
    return folder


def _lay_out_assignor(repository: Path, built: Path) -> None:
    """Write the artifact of `LagAwareAssignor`, whose classes are taken from the built jar."""
    with zipfile.ZipFile(built) as archive:
        classes = {
            name: archive.read(name)
            for name in archive.namelist()
            if name == "META-INF/MANIFEST.MF" or name.startswith((f"{_ASSIGNOR}.", f"{_ASSIGNOR}$"))
        }
    sources = {f"{_ASSIGNOR}.java": (jar_build.SOURCES / f"{_ASSIGNOR}.java").read_bytes()}
    folder = jars.write_repository(
        repository, _zip(classes), __version__, ASSIGNOR_ARTIFACT, _ASSIGNOR_DESCRIPTION
    )
    ivy.write_file(folder / f"{ASSIGNOR_ARTIFACT}-{__version__}-sources.jar", _zip(sources))
    _write_checksums(folder)


def _zip(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of the files with fixed time stamps: same files, same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return packed.getvalue()


def _write_checksums(folder: Path) -> None:
    for path in [p for p in folder.iterdir() if p.suffix in {".jar", ".pom"}]:
        for kind in CHECKSUMS:
            checksum = hashlib.new(kind, path.read_bytes(), usedforsecurity=False).hexdigest()
            ivy.write_file(path.with_name(f"{path.name}.{kind}"), checksum.encode())


def fetched(repository: Path, scratch: Path, coordinate: str = COORDINATE) -> list[Path]:
    """Return the jars that Ivy finds for the coordinate there, with an empty cache.

    Nothing but that repository is asked, so whatever else the POM needed would be an error.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    settings = scratch / "ivysettings.xml"
    settings.write_text(_SETTINGS.format(root=f"{repository.resolve().as_uri()}/"))
    ours = {
        "ASSIGNOR_BRIDGE_IVY_SETTINGS": str(settings),
        "ASSIGNOR_BRIDGE_CACHE": str(scratch / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", _FETCH, coordinate],
        env=os.environ | ours, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ivy.JarError(done.stderr.strip()[-500:])
    return [Path(line) for line in done.stdout.splitlines()]
