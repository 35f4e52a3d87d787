"""Class paths on which the bridge cannot act: a warning, Spark's own mapping, or a failed query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assignor_bridge import ivy
from assignor_bridge.jars import built_jar, connector_coordinate
from tests import class_path_driver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.drivers]

COUNTS = [5, 4]
PACKAGE = "org/apache/spark/sql/kafka010"


def connector() -> list[Path]:
    """Spark's Kafka connector and what it needs that Spark does not bring."""
    needed = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
    return [jar for jar in ivy.fetch(connector_coordinate()) if jar.name.startswith(needed)]


def told_by(
    topic: Topic, folder: Path, class_path: Iterable[Path], jars: Iterable[Path] = ()
) -> tuple[dict[str, Any], list[str]]:
    """What a driver told of its queries, and the bridge's warnings."""
    topic.create(len(COUNTS)).fill(COUNTS)
    task = {
        "servers": topic.bootstrap_servers,
        "topic": topic.name,
        "folder": str(folder),
        "class path": [str(path) for path in class_path],
        "jars": [str(jar) for jar in jars],
    }
    done = subprocess.run(
        [sys.executable, class_path_driver.__file__, json.dumps(task)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    log = (folder / "driver.log").read_text() if (folder / "driver.log").exists() else ""
    assert done.returncode == 0, done.stderr[-3000:] + log[-3000:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    warnings = [line for line in log.splitlines() if " WARN " in line and "assignor" in line]
    return json.loads(line.removeprefix("TOLD ")), warnings


def without_member(jar: Path, name: str, member: str, folder: Path) -> Path:
    """Copy one class of a jar, as in a Spark where this member of it has another name.

    Gives the folder to put on the class path. The name is a constant of the class file: a tag, its
    length, its characters.
    """
    with zipfile.ZipFile(jar) as archive:
        code = archive.read(f"{PACKAGE}/{name}.class")
    constant = b"\x01" + len(member).to_bytes(2, "big") + member.encode()
    assert code.count(constant) == 1
    target = folder / "classes" / PACKAGE / f"{name}.class"
    target.parent.mkdir(parents=True)
    target.write_bytes(code.replace(constant, constant[:-1] + b"X"))
    return folder / "classes"


def test_our_jar_on_the_class_path_and_the_connector_by_packages(
    topic: Topic, tmp_path: Path
) -> None:
    """The loader of our jar does not see the connector then; nor does it where there is none."""
    told, warnings = told_by(topic, tmp_path, [built_jar()], connector())

    assert told["rate"]["rows"]
    assert told["without"] == told["with"] == {"rows": sum(COUNTS), "metrics": [{}]}
    reason = "does not see the Kafka connector: give Spark both jars in the same way"
    [warning] = warnings
    assert "option 'assignor' has no effect" in warning
    assert reason in warning
    assert reason in told["fail"]["error"]


def test_a_method_of_spark_that_is_gone_falls_back_batch_by_batch(
    topic: Topic, tmp_path: Path
) -> None:
    [changed] = [jar for jar in connector() if "sql-kafka" in jar.name]
    classes = without_member(changed, "KafkaBatchInputPartition", "copy", tmp_path)

    told, warnings = told_by(topic, tmp_path, [classes, built_jar(), *connector()])

    assert told["without"]["rows"] == told["with"]["rows"] == sum(COUNTS)
    [metrics] = told["with"]["metrics"]
    assert metrics["assignor.strategy"] == "spark"
    assert metrics["assignor.fallbacks"] == "1"
    assert "KafkaBatchInputPartition.copy(" in metrics["assignor.fallbackReason"]
    [warning] = warnings
    assert "NoSuchMethodError" in warning
    assert "KafkaBatchInputPartition.copy(" in warning
    assert "KafkaBatchInputPartition.copy(" in told["fail"]["error"]


def test_a_part_of_sparks_stream_that_is_gone_leaves_the_stream_to_spark(
    topic: Topic, tmp_path: Path
) -> None:
    [changed] = [jar for jar in connector() if "sql-kafka" in jar.name]
    classes = without_member(changed, "KafkaMicroBatchStream", "startingOffsets", tmp_path)

    told, warnings = told_by(topic, tmp_path, [classes, built_jar(), *connector()])

    assert told["without"] == told["with"] == {"rows": sum(COUNTS), "metrics": [{}]}
    reason = "KafkaMicroBatchStream has no field 'startingOffsets'"
    [warning] = warnings
    assert "leaves a stream to Spark's own mapping" in warning
    assert reason in warning
    assert reason in told["fail"]["error"]
