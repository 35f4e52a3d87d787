"""Run the suites that Spark publishes for its Kafka source, every stream of them with an assignor.

`python -m tests.lab.sparksuite [--strategy NAME] [SUITE ...]`, or `make spark-suite`. The suites
bring their own broker; the bridge comes by class path and session settings. Spark's test sessions
load no extension by `META-INF/services` (`spark.sql.extensions.test.loadFromCp=false`), so it is
named.

The run fails when a streaming suite shows no plan of ours in Spark's log, when a test fails that is
not in `expected_failures.yaml`, and when one that is there passes. A test that fails is run again
by itself, up to three times: some of Spark's race with their own broker, with Spark alone as well.
One that then passes is named and does not fail the run. With `--strategy none` Spark is alone, and
nothing is expected to fail. Needs the connector's published test jars of the installed
Spark, which Ivy fetches once into the cache (120 MB).

With `--admission=time` (`make spark-suite ADMISSION=time`) the planner also says how far each batch
of the largest suite goes, by a target time that none of them reaches; with `--admission=deadline`
by what retention deletes first, aligned by event time. No admission in the log fails the run, too.
What the suite expects of Spark's limits must hold: they stay upper bounds.

With `--split=false` (`make spark-suite SPLIT=false`) no partition is read by two tasks of a batch,
so Spark's order of rows must hold, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from assignor_bridge import ivy
from assignor_bridge.jars import connector_coordinate, find_built_jar
from tests.lab.compat.class_path import jars
from tests.lab.sparksuite.results import (
    Expectation,
    Suite,
    complaints,
    expected_failures,
    read_suite,
    report,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "org.apache.spark.sql.kafka010"
#: The suites, and whether they read streams (the others read batches, or no records at all).
SUITES = {
    "KafkaMicroBatchV2SourceWithAdminSuite": True,
    "KafkaMicroBatchV2SourceWithConsumerSuite": True,
    "KafkaDontFailOnDataLossSuite": True,
    "KafkaSourceStressSuite": True,
    "KafkaSourceStressForDontFailOnDataLossSuite": True,
    "KafkaDelegationTokenSuite": True,
    "KafkaOffsetReaderSuite": False,
    "KafkaRelationSuiteV1": False,
    "KafkaRelationSuiteV2": False,
}
#: With `--admission`, unless suites are named.
LIMITED = "KafkaMicroBatchV2SourceWithAdminSuite"
ADMISSIONS = {
    "time": ["spark.assignor.targetBatchSeconds=60"],
    "deadline": ["spark.assignor.fairness=deadline", "spark.assignor.alignEventTime=10 minutes"],
}
SPLIT = ("true", "false")
ALONE = "none"
#: What the test jars of a line of Spark need beside Spark itself, as its POMs have it.
NEEDS = {
    "4.0": {"kafka": "3.9.0", "hadoop": "3.4.1", "mockito": "mockito-5-12_2.13"},
    "4.1": {"kafka": "3.9.1", "hadoop": "3.4.2", "mockito": "mockito-5-12_2.13"},
    "4.2": {"kafka": "3.9.2", "hadoop": "3.5.0", "mockito": "mockito-5-18_2.13"},
}
LOG, REPORTS = "spark.log", "reports"
#: A test that fails is run again by itself so often, at most.
RERUNS = 3
OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio",
    "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch",
    "sun.nio.cs", "sun.security.action", "sun.util.calendar",
)  # fmt: skip


def spark_version() -> str:
    """Return the version of the connector for the installed Spark."""
    return connector_coordinate().rpartition(":")[2]


def suite_jars() -> Path:
    """Folder of the test jars and what they need, fetched the first time."""
    version = spark_version()
    target = ivy.cache_folder() / "jars" / f"spark-suite-{version}"
    if not target.is_dir():
        template = Template(Path(__file__).with_name("ivy.xml.template").read_text("utf-8"))
        with ivy.lock_cache("ivy"), ivy.create_folder(target) as folder:
            module = folder / "ivy.xml"
            needs = NEEDS[version.rpartition(".")[0]]
            module.write_text(template.substitute(spark=version, **needs), encoding="utf-8")
            pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
            arguments = ["-ivy", str(module), "-confs", "default", "-retrieve", pattern]
            ivy.run_ivy(arguments, "Spark's own test jars")
            # Some tests open their resources as files, so the connector's must not stay a jar.
            for jar in folder.glob("spark-sql-kafka-*-tests.jar"):
                with zipfile.ZipFile(jar) as archive:
                    archive.extractall(folder / "classes")
                jar.unlink()
    return target


def command(strategy: str, settings: list[str], suite: str, scratch: Path) -> list[str]:
    """Make the call of ScalaTest's runner for one suite, with its report and log in `scratch`."""
    class_path = [str(suite_jars() / "classes"), str(find_built_jar())]
    class_path += [str(jar) for jar in jars() if _is_connector(jar)]
    class_path += [str(ivy.pyspark_home() / "jars" / "*"), str(suite_jars() / "*")]
    properties = {
        "java.io.tmpdir": str(scratch),
        "jdk.reflect.useDirectMethodHandle": "false",
        "log4j2.configurationFile": Path(__file__).with_name("log4j2.properties").as_uri(),
        "assignor.suite.log": str(scratch / LOG),
        "spark.testing": "true",
        "spark.ui.enabled": "false",
        "spark.assignor.python": sys.executable,
        "spark.assignor.onError": "fail",
        **dict(setting.split("=", 1) for setting in settings),
    }
    if strategy != ALONE:
        properties["spark.sql.extensions"] = "io.assignorbridge.AssignorExtensions"
        properties["spark.assignor.strategy"] = strategy
    return [
        ivy.find_tool("java"), "-Xmx2g", "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
        *(f"-D{key}={value}" for key, value in properties.items()),
        "-cp", os.pathsep.join(class_path), "org.scalatest.tools.Runner", "-R", ".", "-oW",
        "-u", str(scratch / REPORTS), "-s", f"{PACKAGE}.{suite}",
    ]  # fmt: skip


def _is_connector(jar: Path) -> bool:
    return jar.name.startswith(("spark-sql-kafka", "spark-token-provider", "commons-pool2"))


def run(suite: str, strategy: str, settings: list[str], test: str | None = None) -> Suite:
    """Run one suite, or one test of it, in a JVM of its own."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with tempfile.TemporaryDirectory(prefix="spark-suite-") as folder:
        scratch = Path(folder)
        words = command(strategy, settings, suite, scratch) + ([] if test is None else ["-t", test])
        subprocess.run(words, cwd=scratch, env=environment, check=False)
        log = (scratch / LOG).read_text(encoding="utf-8", errors="replace")
        return read_suite(suite, scratch / REPORTS, log, strategy)


def without_races(
    suite: Suite,
    expected: Mapping[tuple[str, str], Expectation],
    strategy: str,
    settings: list[str],
) -> Suite:
    """Return the results with those of failed tests that pass when they are run by themselves."""
    for test in sorted(suite.failed):
        if (suite.name, test) not in expected and any(
            test in run(suite.name, strategy, settings, test).passed for _ in range(RERUNS)
        ):
            print(f"== {suite.name}: failed, and passed when run again: {test}", flush=True)
            suite = replace(suite, passed=suite.passed | {test}, failed=suite.failed - {test})
    return suite


def main() -> int:
    """Run the suites; 1 when a result is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.sparksuite", description=__doc__)
    parser.add_argument("--strategy", default="lag-aware-sticky", help="'none' for Spark alone")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--admission", choices=ADMISSIONS, help="limit batches, too")
    parser.add_argument("--split", choices=SPLIT, default="true", help="`assignor.split`")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what passed, as JUnit")
    parser.add_argument("suites", nargs="*")
    asked = parser.parse_args()
    alone = asked.strategy == ALONE
    line = spark_version().rpartition(".")[0]
    settings = [*asked.settings, f"spark.assignor.split={asked.split}"]
    settings += ADMISSIONS.get(asked.admission, [])
    expected = (
        {} if alone else expected_failures(line, admission=asked.admission, split=asked.split)
    )
    wrong: list[str] = []
    ran: list[Suite] = []
    for name in asked.suites or ([LIMITED] if asked.admission else SUITES):
        print(f"== {name}", flush=True)
        suite = run(name, asked.strategy, settings)
        suite = without_races(suite, expected, asked.strategy, settings)
        ran.append(suite)
        print(
            f"== {name}: {len(suite.passed)} passed, {len(suite.failed)} failed, "
            f"{suite.plans} plans by {asked.strategy}, {suite.admissions} admissions",
            flush=True,
        )
        due = SUITES.get(name, True) and not alone
        wrong += complaints(suite, expected, due, due and asked.admission is not None)
    if asked.report:
        asked.report.write_text(report(ran, expected, wrong), encoding="utf-8")
    print("\n".join(wrong) if wrong else "== all as expected", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
