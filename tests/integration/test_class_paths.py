"""Class paths on which the bridge cannot act: a warning, Spark's own mapping, or a failed query."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from assignor_bridge import ivy
from assignor_bridge.jars import built_jar, connector_coordinate
from tests.class_path_driver import told_by

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.drivers]

COUNTS = [5, 4]
PACKAGE = "org/apache/spark/sql/kafka010"


def connector() -> list[Path]:
    """Spark's Kafka connector and what it needs that Spark does not bring."""
    needed = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
    return [jar for jar in ivy.fetch(connector_coordinate()) if jar.name.startswith(needed)]


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
    topic.create(len(COUNTS)).fill(COUNTS)

    told, warnings = told_by(topic, tmp_path, [built_jar()], connector())

    assert told["rate"]["rows"]
    assert told["without"] == told["with"] == {"rows": sum(COUNTS), "metrics": [{}]}
    reason = "does not see the Kafka connector: give Spark both jars in the same way"
    [warning] = warnings
    assert "option 'assignor' has no effect" in warning
    assert reason in warning
    assert reason in told["fail"]["error"]


@pytest.mark.parametrize(
    ("name", "member", "named"),
    [
        ("KafkaBatchInputPartition", "copy", "copy()"),
        ("KafkaMicroBatchStream", "startingOffsets", "startingOffsets"),  # a private field
    ],
)
def test_a_spark_that_lacks_what_we_use_of_it_reads_the_topic_by_itself(
    topic: Topic, tmp_path: Path, name: str, member: str, named: str
) -> None:
    [changed] = [jar for jar in connector() if "sql-kafka" in jar.name]
    classes = without_member(changed, name, member, tmp_path)

    topic.create(len(COUNTS)).fill(COUNTS)

    told, warnings = told_by(topic, tmp_path, [classes, built_jar(), *connector()])

    assert told["without"] == told["with"] == {"rows": sum(COUNTS), "metrics": [{}]}
    reason = f"which lacks org.apache.spark.sql.kafka010.{name}.{named}"
    [warning] = warnings
    assert "option 'assignor' has no effect" in warning
    assert warning.endswith(reason)
    assert reason in told["fail"]["error"]
