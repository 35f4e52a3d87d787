"""What a release is made of: licences that are allowed, a bill of materials, known weaknesses."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
import zipfile
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from assignor_bridge.jars import find_built_jar
from streaming.observe.check_result import Check
from tests.lab.release import __main__ as release
from tests.lab.release import dependencies, maven
from tests.lab.release.__main__ import audited
from tests.lab.release.advisories import audit
from tests.lab.release.dependencies import OURS, Dependency, installed, jars, packages, pinned
from tests.lab.release.sbom import bill

if TYPE_CHECKING:
    from pathlib import Path


def test_every_pinned_package_is_installed_as_pinned_and_has_an_allowed_licence() -> None:
    used = [installed(requirement.name) for requirement in pinned()]
    assert len(used) > 50
    for requirement, each in zip(pinned(), used, strict=True):
        assert requirement.specifier.contains(each.version), requirement
    assert {each.purl: each.not_allowed for each in used if each.not_allowed} == {}


def test_every_jar_that_spark_fetches_has_an_allowed_licence() -> None:
    fetched = jars()
    names = {jar.name for jar in fetched}
    assert {"org.apache.kafka:kafka-clients", "io.delta:delta-storage"} <= names
    assert {jar.purl: jar.not_allowed for jar in fetched if jar.not_allowed} == {}


@pytest.mark.parametrize(
    ("licence", "refused"),
    [
        ("MIT", []),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", []),
        ("GPL-3.0-only OR MIT", ["GPL-3.0-only"]),  # somebody looks, and chooses
        ("Commercial", ["Commercial"]),
        ("", ["none named"]),
    ],
)
def test_a_licence_that_is_not_in_the_list_is_named(licence: str, refused: list[str]) -> None:
    assert Dependency("PyPI", "p", "1", licence).not_allowed == refused


@pytest.mark.long
def test_the_bill_of_materials_is_valid_and_has_all_that_is_installed_with_the_package() -> None:
    document = bill()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    listed: dict[str, Any] = json.loads(document)
    found = {c.get("purl", c["name"]): c for c in listed["components"]}
    needed = [each.purl for each in (*packages(), *jars())]
    assert set(found) == {find_built_jar().name, *needed}
    assert f"pkg:pypi/pyspark@{importlib.metadata.version('pyspark')}" in found
    assert not [purl for purl in found if "/pytest@" in purl]
    assert all(component["licenses"] for component in found.values())
    assert listed["metadata"]["component"]["name"] == OURS
    assert bill() == document


ADVISORY = {
    "id": "GHSA-1",
    "aliases": ["CVE-1"],
    "modified": "2026-10-01T00:00:00Z",
    "summary": "reads too much",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "Some_Package"}}],
}


def export(folder: Path, **changed: Any) -> Path:
    path = folder / "all.zip"
    advisory = json.loads(json.dumps(ADVISORY))
    advisory["affected"][0] |= changed.pop("affected", {})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("GHSA-1.json", json.dumps(advisory | changed))
    return path


def between(*events: tuple[str, str]) -> dict[str, Any]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": [{kind: at} for kind, at in events]}]}


@pytest.mark.parametrize(
    ("affected", "hit"),
    [
        ({"versions": ["1.9", "1.10"]}, True),
        ({"versions": ["1.9"]}, False),
        (between(("introduced", "0"), ("fixed", "1.10")), False),
        (between(("introduced", "0"), ("fixed", "1.11")), True),
        (between(("introduced", "0"), ("last_affected", "1.10")), True),
        (between(("introduced", "0"), ("last_affected", "1.9")), False),
        (between(("introduced", "0"), ("fixed", "1.2"), ("introduced", "1.10")), True),
        (between(("introduced", "2"), ("fixed", "3")), False),
        (between(("fixed", "1.5"), ("introduced", "0")), False),  # in any order
        (between(("introduced", "1.9"), ("introduced", "0"), ("fixed", "1.2")), True),
        (between(("introduced", "r09")), True),  # cannot be compared
    ],
)
def test_an_advisory_is_found_by_version(
    tmp_path: Path, affected: dict[str, Any], hit: bool
) -> None:
    used = [Dependency("PyPI", "some-package", "1.10", "MIT")]
    lines, newest = audit([export(tmp_path, affected=affected)], used)
    told = "pkg:pypi/some-package@1.10: GHSA-1, CVE-1: reads too much"
    assert (lines, newest) == ([told] if hit else [], "2026-10-01")


@pytest.mark.parametrize("content", ["[]", "{}", "no JSON"])
def test_a_zip_without_advisories_is_one_line_of_the_audit(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package.json", content)
    check = audited([str(path)])
    assert not check.holds
    assert check.details.startswith("the advisories cannot be read: ")


@pytest.mark.parametrize(
    ("tagged", "code", "last"),
    [
        (False, 0, "skipped no known weakness: no OSV files"),
        (True, 1, "FAILED no known weakness: not looked up"),
    ],
)
def test_a_release_is_audited_and_a_dry_run_without_advisories_says_that_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tagged: bool,
    code: int,
    last: str,
) -> None:
    def holds(*_: object) -> Check:
        return Check("a step", True, "done")

    done = ("clean_tree", "same_jar", "same_packages", "maven_artifact", "billed")
    for step in (*done, "works_where_it_is_installed"):
        monkeypatch.setattr(release, step, holds)
    monkeypatch.setattr(release, "is_tagged", lambda: tagged)
    monkeypatch.setattr(sys, "argv", ["release", "check"])
    assert release.main() == code
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[-1].startswith(last)


def test_an_advisory_that_was_withdrawn_or_is_of_another_ecosystem_is_none(tmp_path: Path) -> None:
    used = [Dependency("PyPI", "some-package", "1.10", "MIT")]
    every = between(("introduced", "0"))
    withdrawn = export(tmp_path, affected=every, withdrawn="2026-10-02T00:00:00Z")
    assert audit([withdrawn], used)[0] == []
    of_maven = {"package": {"ecosystem": "Maven", "name": "some-package"}}
    assert audit([export(tmp_path, affected=every | of_maven)], used)[0] == []
    assert audit([export(tmp_path, affected=every)], used)[0] != []


def test_a_jar_that_ivy_did_not_note_is_no_silent_gap(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        dependencies.ivy, "fetch", lambda coordinate: [tmp_path / "unknown-1.0.jar"]
    )
    with pytest.raises(LookupError, match=r"unknown-1\.0\.jar is not in"):
        jars()


def test_the_maven_artifact_has_pom_sources_and_checksums(tmp_path: Path) -> None:
    folder = maven.write_repository(tmp_path)
    packed = {f"{maven.NAME}{end}" for end in (".jar", ".pom", "-sources.jar")}
    checksums = {f"{name}.{kind}" for name in packed for kind in maven.CHECKSUMS}
    assert {path.name for path in folder.iterdir()} == packed | checksums
    sha1 = hashlib.sha1((folder / f"{maven.NAME}.jar").read_bytes()).hexdigest()  # noqa: S324
    assert (folder / f"{maven.NAME}.jar.sha1").read_text() == sha1
    pom = ElementTree.parse(folder / f"{maven.NAME}.pom").getroot()  # noqa: S314  (ours)
    named = [pom.findtext(tag) for tag in ("groupId", "artifactId", "version")]
    assert ":".join(map(str, named)) == maven.COORDINATE
    assert folder == tmp_path.joinpath(*str(named[0]).split("."), *map(str, named[1:]))


def test_the_sources_jar_has_a_source_for_each_class(tmp_path: Path) -> None:
    folder = maven.write_repository(tmp_path)
    with zipfile.ZipFile(folder / f"{maven.NAME}.jar") as jar:
        classes = {n.removesuffix(".class") for n in jar.namelist() if n.endswith(".class")}
    with zipfile.ZipFile(folder / f"{maven.NAME}-sources.jar") as jar:
        sources = {n.removesuffix(".java") for n in jar.namelist() if n.endswith(".java")}
    assert {name.partition("$")[0] for name in classes} == sources


def test_two_repositories_have_the_same_bytes(tmp_path: Path) -> None:
    one, two = (maven.write_repository(tmp_path / name) for name in ("one", "two"))
    files = sorted(path.name for path in one.iterdir())
    assert [(one / n).read_bytes() for n in files] == [(two / n).read_bytes() for n in files]
