"""Run the suites that Spark publishes for its Kafka source, every stream of them with an assignor.

`python -m tests.sparksuite [--strategy NAME] [SUITE ...]`, or `make spark-suite`. The suites bring
their own broker; the bridge comes by class path and session settings alone, as in a user's job.
Needs the connector's published test jars, which Ivy fetches once into the cache (120 MB).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from assignor_bridge import ivy
from assignor_bridge.jars import built_jar, connector_coordinate

PACKAGE = "org.apache.spark.sql.kafka010"
SUITES = (
    "KafkaMicroBatchV2SourceWithAdminSuite",
    "KafkaMicroBatchV2SourceWithConsumerSuite",
    "KafkaDontFailOnDataLossSuite",
)
OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio",
    "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch",
    "sun.nio.cs", "sun.security.action", "sun.util.calendar",
)  # fmt: skip


def suite_jars() -> Path:
    """Folder of the test jars and what they need, fetched the first time."""
    target = ivy.cache_folder() / "jars" / "spark-suite-4.0.0"
    if not target.is_dir():
        scratch = Path(tempfile.mkdtemp(prefix=".fetching-", dir=ivy.cache_folder() / "jars"))
        carried = next((ivy.pyspark_home() / "jars").glob("ivy-*.jar"))
        subprocess.run(
            [
                ivy.java_tool("java"), "-cp", str(carried), "org.apache.ivy.Main",
                "-ivy", str(Path(__file__).with_name("ivy.xml")),
                "-cache", str(ivy.cache_folder() / "ivy"), "-confs", "default",
                "-retrieve", f"{scratch}/[artifact]-[revision](-[classifier]).[ext]",
            ],
            check=True,
        )  # fmt: skip
        # Some tests open their resources as files, so the connector's tests must not stay a jar.
        for jar in scratch.glob("spark-sql-kafka-*-tests.jar"):
            with zipfile.ZipFile(jar) as archive:
                archive.extractall(scratch / "classes")
            jar.unlink()
        scratch.rename(target)
    return target


def command(strategy: str, settings: list[str], suites: list[str], scratch: str) -> list[str]:
    """The call of ScalaTest's runner."""
    class_path = [str(suite_jars() / "classes"), str(built_jar())]
    class_path += [str(jar) for jar in ivy.fetch(connector_coordinate()) if _is_connector(jar)]
    class_path += [str(ivy.pyspark_home() / "jars" / "*"), str(suite_jars() / "*")]
    properties = {
        "java.io.tmpdir": scratch,
        "jdk.reflect.useDirectMethodHandle": "false",
        "spark.testing": "true",
        "spark.ui.enabled": "false",
        "spark.assignor.python": sys.executable,
        "spark.assignor.onError": "fail",
        **dict(setting.split("=", 1) for setting in settings),
    }
    if strategy != "none":
        properties["spark.assignor.strategy"] = strategy
    return [
        ivy.java_tool("java"), "-Xmx2g", "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
        *(f"-D{key}={value}" for key, value in properties.items()),
        "-cp", os.pathsep.join(class_path), "org.scalatest.tools.Runner", "-R", ".", "-oW",
        *(part for suite in suites for part in ("-s", f"{PACKAGE}.{suite}")),
    ]  # fmt: skip


def _is_connector(jar: Path) -> bool:
    return jar.name.startswith(("spark-sql-kafka", "spark-token-provider", "commons-pool2"))


def main() -> int:
    """Run the suites; the exit code is ScalaTest's."""
    parser = argparse.ArgumentParser(prog="python -m tests.sparksuite", description=__doc__)
    parser.add_argument("--strategy", default="lag-aware-sticky", help="'none' for Spark alone")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("suites", nargs="*", default=list(SUITES))
    asked = parser.parse_args()
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with tempfile.TemporaryDirectory(prefix="spark-suite-") as scratch:
        return subprocess.run(
            command(asked.strategy, asked.settings, asked.suites, scratch),
            cwd=scratch,
            env=environment,
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
