"""A bill of materials in CycloneDX's JSON: this package and what comes with it."""

from __future__ import annotations

import hashlib
import os
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from assignor_bridge import __version__
from assignor_bridge.jars import find_built_jar
from tests.lab.release.dependencies import OURS, jars, packages

if TYPE_CHECKING:
    from tests.lab.release.dependencies import Dependency


def bill() -> str:
    """Return the document; the same for the same versions, jar and SOURCE_DATE_EPOCH."""
    ours = Component(
        name=OURS,
        version=__version__,
        type=ComponentType.LIBRARY,
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
        purl=PackageURL("pypi", name=OURS, version=__version__),
        bom_ref=OURS,
    )
    jar = Component(
        name=find_built_jar().name,
        version=find_built_jar().stem.removeprefix(f"{OURS}-"),
        type=ComponentType.LIBRARY,
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256(find_built_jar().read_bytes()))],
        bom_ref="jar",
    )
    of_python, of_spark = packages(), jars()
    component = {each.purl: _component(each) for each in (*of_python, *of_spark)}
    package = {each.name: component[each.purl] for each in of_python}
    identity = " ".join([jar.version or "", *sorted(component)])
    bom = Bom(
        components=[jar, *component.values()],
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{OURS} {__version__} {identity}"),
    )
    bom.metadata.component = ours
    made = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    bom.metadata.timestamp = datetime.fromtimestamp(made, timezone.utc)
    bom.register_dependency(ours, [jar, *component.values()])
    bom.register_dependency(jar, [component[each.purl] for each in of_spark])
    for each in of_python:
        bom.register_dependency(package[each.name], [package[name] for name in each.needs])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def sha256(content: bytes) -> str:
    """Return the hash as hexadecimal text."""
    return hashlib.sha256(content).hexdigest()


def _component(dependency: Dependency) -> Component:
    return Component(
        name=dependency.name,
        version=dependency.version,
        type=ComponentType.LIBRARY,
        licenses=[LicenseFactory().make_from_string(dependency.licence)],
        purl=PackageURL.from_string(dependency.purl),
        bom_ref=dependency.purl,
    )
