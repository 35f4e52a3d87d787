"""What can be seen in the Java sources without compiling them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "assignor_bridge" / "jvm" / "src"
ROOT = SOURCES / "io" / "assignorbridge"
#: Packages from top to bottom, "" for the root: each may use those of lower floors only. So there
#: are no circles, and nothing uses the packages of the top floor.
FLOORS = (
    ("", "delta", "records"),
    ("source",),
    ("planning",),
    ("admission", "cluster", "state"),
    ("worker",),
    ("reader", "settings"),
    ("kafka",),
    ("model",),
)
FLOOR = {package: number for number, floor in enumerate(FLOORS) for package in floor}
#: What settings of users name, and docs: these classes keep their full names.
NAMED_IN_SETTINGS = (
    "AssignorExtensions",
    "LagAwareAssignor",
    "LocalFiles",
    "reader.ReaderCounters",
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^package [^\n]*", re.DOTALL | re.MULTILINE)
_CLASS = re.compile(r'(?<!")\bio\.assignorbridge\.(?:(\w+)\.)?[A-Z]')


def packages_used(path: Path) -> set[str]:
    """Return the packages of ours whose classes a file imports or writes out, but its own."""
    code = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    return {match[1] or "" for match in _CLASS.finditer(code)} - {package_of(path)}


def package_of(path: Path) -> str:
    folder = path.parent.relative_to(ROOT).as_posix()
    return "" if folder == "." else folder


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.java")), ids=lambda path: path.stem)
def test_numbers_are_formatted_in_no_language(path: Path) -> None:
    """With an Arabic locale `%d` writes other digits, and JSON is none."""
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"String\.format\((?!\s*Locale\.ROOT)", text) == []


@pytest.mark.parametrize("package", FLOOR)
def test_packages_use_lower_floors_only(package: str) -> None:
    upward = [
        f"{path.name} uses {used or 'the root'}"
        for path in sorted((ROOT / package).glob("*.java"))
        for used in sorted(packages_used(path))
        if FLOOR[used] <= FLOOR[package]
    ]
    assert upward == []


def test_every_package_has_a_floor() -> None:
    assert {package_of(path) for path in SOURCES.rglob("*.java")} == set(FLOOR)


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.java")), ids=lambda path: path.stem)
def test_files_declare_the_package_of_their_folder(path: Path) -> None:
    declared = re.search(r"^package ([\w.]+);", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert declared
    assert declared[1].replace(".", "/") == path.parent.relative_to(SOURCES).as_posix()


@pytest.mark.parametrize("name", NAMED_IN_SETTINGS)
def test_names_in_settings_stay(name: str) -> None:
    assert (ROOT / f"{name.replace('.', '/')}.java").is_file()


def test_the_class_for_consumers_needs_kafkas_client_alone() -> None:
    """Consumers without Spark load it."""
    text = (ROOT / "LagAwareAssignor.java").read_text(encoding="utf-8")
    imports = re.findall(r"^import (?:static )?(\S+);", text, flags=re.MULTILINE)
    allowed = ("java.", "org.apache.kafka.clients.", "org.apache.kafka.common.", "org.slf4j.")
    assert [name for name in imports if not name.startswith(allowed)] == []
