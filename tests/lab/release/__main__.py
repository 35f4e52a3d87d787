"""`python -m tests.lab.release`: write the bill of materials, audit it, or try a whole release.

`bill FILE` writes the bill of materials, `maven FOLDER` the jar as a Maven repository has it.
`audit ZIP…` looks for what we depend on in downloaded exports of OSV's advisories. `check [ZIP…]`
does all that a release does, and publishes nothing; without exports a commit that has no tag is not
audited.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge.ivy import JarError
from assignor_bridge.jvm import build as jar_build
from streaming.cli.output import print_checks, print_lines
from streaming.observe.check_result import Check
from tests.lab.release import maven
from tests.lab.release.advisories import audit
from tests.lab.release.dependencies import ROOT, installed, jars, packages, pinned
from tests.lab.release.sbom import bill, sha256
from tests.support.built_packages import build, run_uv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def audited(exports: Sequence[str]) -> Check:
    """Look for advisories; print those that are about us."""
    what = "no known weakness"
    if not exports:
        told = (
            "not looked up: download OSV's exports of PyPI and Maven, then OSV=pypi.zip:maven.zip"
        )
        return Check(what, False, told)
    used = [*map(installed, names()), *packages(), *jars()]
    try:
        lines, newest = audit(map(Path, exports), used)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        return Check(what, False, f"the advisories cannot be read: {error}")
    print_lines(lines)
    return Check(what, not lines, f"{len(lines)} advisories, the newest known of {newest}")


def is_tagged() -> bool:
    """Whether this commit has a tag: with one it is a release, without one a dry run."""
    words = ["git", "tag", "--points-at", "HEAD"]
    named = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return bool(named.split())


def names() -> list[str]:
    """Names of what constraints.txt pins here."""
    return [requirement.name for requirement in pinned()]


def clean_tree() -> Check:
    """What is released is what is committed."""
    words = ["git", "status", "--porcelain"]
    changed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return Check("everything is committed", not changed, f"{len(changed.splitlines())} changes")


def same_jar(folder: Path) -> Check:
    """Build the jar again."""
    first, again = (sha256(jar_build.build(*to).read_bytes()) for to in ((), (folder,)))
    return Check("two builds of the jar, one hash", first == again, first)


def same_packages(folder: Path) -> Check:
    """Build wheel and sdist in two places; leave them in `dist/`."""
    hashes = []
    for place in ("one", "two"):
        done = build(committed(folder / place))
        if done.returncode != 0:
            return Check("wheel and sdist are built", False, done.stderr.strip()[-500:])
        made = sorted((folder / place / "out").iterdir())
        hashes.append([sha256(package.read_bytes()) for package in made])
    dist = ROOT / "dist"
    dist.mkdir(exist_ok=True)
    for old in dist.glob("assignor_bridge-*"):
        old.unlink()
    for package in made:
        shutil.move(package, dist / package.name)
    told = ", ".join(f"{p.name} {h[:12]}" for p, h in zip(made, hashes[0], strict=True))
    return Check("two builds of wheel and sdist, one hash each", hashes[0] == hashes[1], told)


def committed(folder: Path) -> Path:
    """Unpack what is committed, and the jar."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    subprocess.run(["git", "archive", "-o", str(archive), "HEAD"], cwd=ROOT, check=True)
    shutil.unpack_archive(archive, folder)
    shutil.copytree(jar_build.JARS_FOLDER, folder / "assignor_bridge" / "jars")
    return folder


def works_where_it_is_installed(folder: Path, kind: str) -> Check:
    """Install into an empty environment, with what it depends on, and run the demo there."""
    what = f"{kind} in a clean environment: doctor, demo"
    [package] = (ROOT / "dist").glob(kind)
    python = folder / "bin" / "python"
    wanted = f"assignor-bridge[demo] @ {package.as_uri()}"
    pins = ["-c", str(ROOT / "constraints.txt")]
    try:
        run_uv("venv", "--no-project", "--python", sys.executable, str(folder))
        run_uv("pip", "install", *pins, "--python", str(python), wanted)
    except AssertionError as error:
        return Check(what, False, f"cannot be installed: {str(error)[-500:]}")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for words in (["doctor"], ["demo", "--workers", "2", "--rows", "30000", "--batches", "3"]):
        command = [str(folder / "bin" / "assignor"), *words]
        done = subprocess.run(
            command, cwd=folder, env=clean, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return Check(what, False, f"{words[0]}: {(done.stdout + done.stderr).strip()[-500:]}")
    return Check(what, True, package.name)


def maven_artifact(folder: Path) -> Check:
    """Lay the artifacts out twice, and fetch them by coordinate; leave them in `dist/maven`."""
    what = "Maven artifacts: laid out twice, one hash each, and fetched by coordinate"
    dist = ROOT / "dist" / "maven"
    shutil.rmtree(dist, ignore_errors=True)
    for repository in (dist, folder / "again"):
        maven.write_repository(repository)
    one, two = (_hashes(repository) for repository in (dist, folder / "again"))
    try:
        [jar] = maven.fetched(dist, folder)
        maven.fetched(dist, folder, maven.ASSIGNOR_COORDINATE)
    except (JarError, ValueError) as error:
        return Check(what, False, str(error))
    same = one == two and sha256(jar.read_bytes()) == one[f"{maven.NAME}.jar"]
    return Check(what, same, f"{maven.COORDINATE}, {len(one)} files")


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.name: sha256(path.read_bytes()) for path in files}


def billed() -> Check:
    """Write the bill of materials beside the packages."""
    target = ROOT / "dist" / "assignor-bridge.cdx.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(bill(), encoding="utf-8")
    used = [*map(installed, names()), *jars()]
    refused = [f"{each.purl}: {', '.join(each.not_allowed)}" for each in used if each.not_allowed]
    what = "bill of materials; licences are allowed"
    return Check(what, not refused, "; ".join(refused) or f"{target.name}, {len(used)} looked at")


def steps(scratch: Path, exports: Sequence[str] | None) -> Iterator[Callable[[], Check]]:
    """Give what is done, in order; without `exports` nothing is audited."""
    yield clean_tree
    yield lambda: same_jar(scratch / "jar")
    yield lambda: same_packages(scratch)
    yield lambda: maven_artifact(scratch / "maven")
    yield lambda: works_where_it_is_installed(scratch / "wheel", "*.whl")
    yield lambda: works_where_it_is_installed(scratch / "sdist", "*.tar.gz")
    yield billed
    if exports is not None:
        yield lambda: audited(exports)


def main() -> int:
    """Do what is asked; 1 when something does not hold."""
    what, *rest = sys.argv[1:] or ["help"]
    if what == "bill" and len(rest) == 1:
        Path(rest[0]).parent.mkdir(exist_ok=True)
        Path(rest[0]).write_text(bill(), encoding="utf-8")
        return 0
    if what == "maven" and len(rest) == 1:
        print(maven.write_repository(Path(rest[0])))
        return 0
    if what == "audit" and rest:
        checks = [audited(rest)]
        print_checks(checks)
    elif what == "check":
        checks = []
        exports = rest if rest or is_tagged() else None
        with tempfile.TemporaryDirectory(prefix="assignor-release-") as scratch:
            for step in steps(Path(scratch), exports):
                checks.append(step())
                print_checks(checks[-1:])
        if exports is None:
            print_lines(["skipped no known weakness: no OSV files, and no tag that needs them"])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return int(not all(check.holds for check in checks))


if __name__ == "__main__":
    sys.exit(main())
