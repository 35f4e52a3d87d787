"""Class paths on which the bridge cannot act: a warning, Spark's default, or a failed query."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from assignor_bridge import ivy
from assignor_bridge.jars import connector_coordinate, find_built_jar
from tests.support.class_files import FINAL, PUBLIC, change_flags
from tests.support.class_path_driver import run_driver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

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
    code = code_of(jar, name)
    constant = b"\x01" + len(member).to_bytes(2, "big") + member.encode()
    assert code.count(constant) == 1
    return on_class_path(code.replace(constant, constant[:-1] + b"X"), name, folder)


def code_of(jar: Path, name: str) -> bytes:
    with zipfile.ZipFile(jar) as archive:
        return archive.read(f"{PACKAGE}/{name}.class")


def on_class_path(code: bytes, name: str, folder: Path) -> Path:
    target = folder / "classes" / PACKAGE / f"{name}.class"
    target.parent.mkdir(parents=True)
    target.write_bytes(code)
    return folder / "classes"


@pytest.mark.long
def test_our_jar_on_the_class_path_and_the_connector_by_packages(
    topic: Topic, tmp_path: Path
) -> None:
    """The loader of our jar does not see the connector then; nor does it where there is none."""
    topic.create(len(COUNTS)).fill(COUNTS)

    told, warnings = run_driver(topic, tmp_path, [find_built_jar()], connector())

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
        pytest.param(
            "KafkaMicroBatchStream", "startingOffsets", "startingOffsets",  # a private field
            marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_a_spark_that_lacks_what_we_use_of_it_reads_the_topic_by_itself(
    topic: Topic, tmp_path: Path, name: str, member: str, named: str
) -> None:
    [changed] = [jar for jar in connector() if "sql-kafka" in jar.name]
    classes = without_member(changed, name, member, tmp_path)

    topic.create(len(COUNTS)).fill(COUNTS)

    assert_spark_reads_alone(
        topic, tmp_path, classes, f"org.apache.spark.sql.kafka010.{name}.{named}"
    )


KAFKA010 = "org.apache.spark.sql.kafka010"
STREAM = "KafkaMicroBatchStream"
UNFIT = "a compatible superclass (class io.assignorbridge.source.AssignedMicroBatchStream"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "member", "remove", "add", "named"),
    [
        pytest.param(
            "KafkaSourceOffset", "<init>", PUBLIC, 0,  # private, Spark could not call it either
            f"{KAFKA010}.KafkaSourceOffset.<init>()",
            id="a constructor that is not public",
        ),
        pytest.param(
            STREAM, None, 0, FINAL,
            f"{UNFIT} cannot inherit from final class {KAFKA010}.{STREAM})",
            id="a final class",
        ),
        pytest.param(
            STREAM, "planInputPartitions", 0, FINAL,
            f"{UNFIT} overrides final method {KAFKA010}.{STREAM}.planInputPartitions",
            id="a final method",
        ),
    ],
)  # fmt: skip
def test_a_spark_where_what_we_use_has_another_shape_reads_the_topic_by_itself(
    topic: Topic, tmp_path: Path, name: str, member: str | None, remove: int, add: int, named: str
) -> None:
    """All of it is there, and the first query would have ended with a LinkageError."""
    [jar] = [jar for jar in connector() if "sql-kafka" in jar.name]
    code = change_flags(code_of(jar, name), member, remove=remove, add=add)
    topic.create(len(COUNTS)).fill(COUNTS)
    assert_spark_reads_alone(topic, tmp_path, on_class_path(code, name, tmp_path), named)


def assert_spark_reads_alone(topic: Topic, folder: Path, classes: Path, named: str) -> None:
    told, warnings = run_driver(topic, folder, [classes, find_built_jar(), *connector()])

    assert told["without"] == told["with"] == {"rows": sum(COUNTS), "metrics": [{}]}
    [warning] = warnings
    assert "option 'assignor' has no effect" in warning
    assert f"which lacks {named}" in warning
    assert f"which lacks {named}" in told["fail"]["error"]
