"""The version of this build: a release, or a version that names a commit (PEP 440).

In a checkout the version comes from git each time, so an editable installation never reports an
older commit. Without `.git`, it comes from the jar's version, or else from `git archive`.
pyproject.toml runs this file alone, so it imports only the standard library.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import SourceLoader

#: The next release; on a commit with the tag `v<RELEASE>`, the current release.
RELEASE = "0.2.0"
#: Files and folders in a wheel: only changes to them make a build dirty.
_BUILT_PATHS = (
    "assignor_bridge",
    "checkpoints",
    "streaming",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
#: `git archive` replaces this with the commit hash (.gitattributes).
_ARCHIVED_COMMIT = "$Format:%H$"


@cache
def read_version() -> str:
    """Return the version of this build; it ends with `+unknown` if the commit is unknown."""
    root = Path(__file__).parents[1]
    if (root / ".git").exists():
        return _read_checkout_version(root) or f"{RELEASE}.dev0+unknown"
    if jar_version := read_jar_version():
        return jar_version.rpartition("-")[0]
    if "Format" in _ARCHIVED_COMMIT:
        return f"{RELEASE}.dev0+unknown"
    return format_version(RELEASE, "", 0, _ARCHIVED_COMMIT, is_dirty=False)


def read_jar_version() -> str:
    """Return the version of the jar built for this package, or an empty string.

    It is `<version>-<hash of the Java sources>`. The module's loader reads the file, because the
    package may be in a zip (`spark-submit --py-files`).
    """
    path = Path(__file__).with_name("jars") / "version.txt"
    try:
        return cast("SourceLoader", __spec__.loader).get_data(str(path)).decode()
    except OSError:
        return ""


def format_version(release: str, tag: str, count: int, commit: str, *, is_dirty: bool) -> str:
    """Return a commit's version; `count` is its number of commits since `tag`, or in total.

    >>> format_version("0.2.0", "", 1232, "a661871d9400c6e2", is_dirty=False)
    '0.2.0.dev1232+ga661871d94'
    >>> format_version("0.2.0", "v0.1.0", 7, "a661871d9400c6e2", is_dirty=True)
    '0.2.0.dev7+ga661871d94.dirty'
    >>> format_version("0.2.0", "v0.2.0", 0, "a661871d9400c6e2", is_dirty=False)
    '0.2.0'
    >>> format_version("0.2.0", "v0.2.0", 3, "a661871d9400c6e2", is_dirty=False)
    '0.2.0.post3+ga661871d94'
    """
    is_released = tag == f"v{release}"
    if is_released and not count and not is_dirty:
        return release
    kind = "post" if is_released else "dev"  # pip must sort it after the release
    return f"{release}.{kind}{count}+g{commit[:10]}{'.dirty' if is_dirty else ''}"


def _read_checkout_version(root: Path) -> str | None:
    """Return the version of the checked-out commit; None if git fails."""

    def git(*words: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(root), *words]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        return process.stdout.strip()

    try:
        tag = git("tag", "--merged", "HEAD", "--list", "v[0-9]*", "--sort=-v:refname")
        tag = tag.partition("\n")[0]
        count = int(git("rev-list", "--count", f"{tag}..HEAD" if tag else "HEAD"))
        is_dirty = bool(git("status", "--porcelain", "--", *_BUILT_PATHS))
        return format_version(RELEASE, tag, count, git("rev-parse", "HEAD"), is_dirty=is_dirty)
    except (OSError, subprocess.CalledProcessError):
        return None
