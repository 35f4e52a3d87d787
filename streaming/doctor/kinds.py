"""Kinds of Spark, and what is known of the option there: `assignor doctor --spark`.

The table of the same rows in docs/where-it-runs.md is compared with this one by a test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from assignor_bridge.errors import OptionError
from streaming.observe.check import Check
from streaming.observe.masters import addresses_of, first_that_answers

PAGE = "docs/where-it-runs.md"
#: A link of the page to one of its own sections.
_BELOW = re.compile(r"\[[^\]]*\]\((#[^)]*)\)")
_DATABRICKS = (
    r"(?i:databricks(://.*)?|(sc|https)://[^/]*databricks(apps)?\.(com|net|us|cn|azure\.\w+).*)"
)
#: What Spark takes; it compares with regard to case.
_LOCAL = r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"


@dataclass(frozen=True, slots=True)
class Kind:
    """One row: what is known, in the Markdown of the page."""

    name: str
    known: Literal["tested", "should work", "not looked at", "will not"]
    why: str
    #: URLs of masters and servers that are of this kind.
    url: str = "(?!)"

    @property
    def row(self) -> str:
        """The row of the page's table."""
        return f"| {self.name} | {self.known} | {self.why} |"

    @property
    def check(self) -> Check:
        """The same for a terminal."""
        why = _BELOW.sub(rf"{PAGE}\1", self.why)
        details = f"{self.known}: {why}".replace("`", "")
        return Check(self.name.replace("`", ""), self.known != "will not", details)


KINDS = (
    Kind(
        "local mode, `local-cluster`",
        "tested",
        "`make test`",
        _LOCAL,
    ),
    Kind(
        "standalone, client mode",
        "tested",
        "`make test`, `make compat`, `make long` ([how](#standalone)). Workers need no Python. Not"
        " shown: hosts with a network between them",
        r"spark://.*",
    ),
    Kind(
        "standalone, cluster mode",
        "tested",
        "for Java and Scala (`make long`); Spark refuses Python there. The driver starts on a"
        " worker: all need Python with this package",
        r"spark://.*",
    ),
    Kind(
        "Databricks",
        "will not",
        "Kafka's classes are renamed there, and this jar is compiled against Apache's; serverless"
        " and shared compute take no jars into the driver",
        _DATABRICKS,
    ),
    Kind("YARN", "should work", "[below](#yarn). Not shown", "yarn"),
    Kind(
        "Kubernetes, by `spark-submit` or an operator (`SparkApplication`)",
        "should work",
        "[below](#kubernetes), with a spec for an operator. Not shown",
        r"k8s://.*",
    ),
    Kind("Spark Connect", "tested", "[below](#spark-connect), `make compat`", r"sc://.*"),
    Kind(
        "Declarative pipelines (`spark-pipelines`, 4.1 and later)",
        "tested",
        "`make compat`. A pipeline runs on a server of Spark Connect: jar and package belong there."
        ' Its streaming tables read the topic with `readStream.format("kafka")`; those in SQL'
        " (`CREATE STREAMING TABLE … AS SELECT … FROM STREAM view`) through a view that Python"
        " opens so",
        r"sc://.*",
    ),
    Kind(
        "Amazon EMR",
        "should work",
        "from emr-spark-8.0 (Spark 4.0). Amazon's Spark is a build of its own: what we use of it is"
        " looked up at the start ([below](#versions)). Not shown. Releases 7 and earlier have"
        " Spark 3: will not",
        "(?i:emr)",
    ),
    Kind(
        "AWS Glue",
        "should work",
        "from 6.0 (Spark 4.1), as on EMR. Not shown. Releases 5.1 and earlier have Spark 3: will"
        " not",
        "(?i:glue)",
    ),
    Kind(
        "Dataproc, Fabric, Synapse, Cloudera",
        "not looked at",
        "`assignor doctor` on the driver says what is missing",
        "(?i:dataproc|fabric|synapse|cloudera)",
    ),
    Kind(
        "macOS, WSL 2",
        "should work",
        "all tests run on Linux. Not shown",
        "(?i:macos|wsl2?)",
    ),
    Kind(
        "Windows",
        "not looked at",
        "nothing was tried there; `assignor run` will not: it locks the checkpoint as Unix does",
        "(?i:windows)",
    ),
    Kind("Mesos", "will not", "Spark 4 has removed it", r"mesos://.*"),
    Kind(
        "Spark 3",
        "will not",
        "the jar is compiled for Java 17, Scala 2.13 and Spark 4. `configure_spark` warns; where"
        " pip installs this package, it replaces a pyspark 3",
    ),
)


def kinds_of(url: str) -> list[Kind]:
    """Return the kinds of Spark that a master's URL, or a platform's name, may mean.

    Raises OptionError when it is of none.

    >>> [kind.name for kind in kinds_of("spark://host:7077")]
    ['standalone, client mode', 'standalone, cluster mode']
    """
    kinds = [kind for kind in KINDS if re.fullmatch(kind.url, url)]
    renamed = [kind for kind in kinds if kind.url == _DATABRICKS]
    if not kinds:
        raise OptionError(
            f"--spark {url!r}: no kind of Spark is named so; give local[…], spark://host:7077,"
            " yarn, k8s://…, sc://host, or the name of a platform: databricks, emr, glue, windows"
        )
    return renamed or kinds


def examine_spark(url: str) -> list[Check]:
    """Say what is known of the option on this Spark, and whether something listens at its address.

    Raises OptionError when the URL is of no kind, or its addresses are none.
    """
    kinds = kinds_of(url)
    checks = [kind.check for kind in kinds]
    addresses = addresses_of(url)
    if not addresses or not any(check.holds for check in checks):
        return checks
    what = "a master answers" if url.startswith("spark:") else "its server answers"
    try:
        there = f"{first_that_answers(addresses)} accepts connections (who it is was not asked)"
        return [*checks, Check(what, True, there)]
    except ConnectionError as error:
        return [*checks, Check(what, False, f"nobody is there ({error}): is it running?")]
    except ValueError as error:
        raise OptionError(f"--spark: {error}") from None
