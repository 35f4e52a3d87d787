"""The jar as a Maven artifact: jar, sources, POM and their checksums, as a repository has them.

Its version is that of the project alone, as for the wheel: what is released once never changes.
(In a user's cache it ends with a hash of the sources, since a checkout's jar does change.)
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from assignor_bridge import __version__, ivy, jars
from assignor_bridge.jvm import build as jar_build

COORDINATE = f"{jars.GROUP}:{jars.ARTIFACT}:{__version__}"
NAME = f"{jars.ARTIFACT}-{__version__}"
#: Those that Maven and Ivy compare a download with.
CHECKSUMS = ("md5", "sha1")

_SETTINGS = """<ivysettings><settings defaultResolver="released"/><resolvers>
<ibiblio name="released" m2compatible="true" root="{root}"/></resolvers></ivysettings>
"""
_FETCH = "import sys; from assignor_bridge import ivy; print(*ivy.fetch(sys.argv[1]), sep='\\n')"


def lay_out(repository: Path) -> Path:
    """Write the artifact into a repository's folder; return its own folder there."""
    folder = jars.write_repository(repository, jar_build.build().read_bytes(), __version__)
    jar_build.pack_sources(folder / f"{NAME}-sources.jar")
    for path in [p for p in folder.iterdir() if p.suffix in {".jar", ".pom"}]:
        for kind in CHECKSUMS:
            checksum = hashlib.new(kind, path.read_bytes(), usedforsecurity=False).hexdigest()
            ivy.write_file(path.with_name(f"{path.name}.{kind}"), checksum.encode())
    return folder


def fetched(repository: Path, scratch: Path) -> list[Path]:
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
        [sys.executable, "-c", _FETCH, COORDINATE],
        env=os.environ | ours, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ivy.JarError(done.stderr.strip()[-500:])
    return [Path(line) for line in done.stdout.splitlines()]
