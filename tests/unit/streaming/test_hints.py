"""Known failures are reported with a hint."""

from __future__ import annotations

from uuid import UUID

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from streaming.pipeline.job_errors import add_hint, drop_java_trace, summarize


@pytest.mark.parametrize(
    ("message", "checkpoint", "hint"),
    [
        pytest.param(
            "Some data may have been lost because they are not available in Kafka any more",
            "/c/sink", "; see: assignor doctor --checkpoint /c/sink", id="data loss",
        ),
        pytest.param("Partition t-0's offset was changed from 9 to 4, some data may have been "
                     "missed.", "/c", "; see: assignor doctor --checkpoint /c", id="made again"),
        pytest.param("some data may have been missed", None, "", id="without a checkpoint"),
        pytest.param("Not authorized to access topics: [t]", "/c",
                     "; the user needs Describe and Read on each source topic, and Describe and "
                     "Write on each sink and dead-letter topic", id="topic"),
        pytest.param("Not authorized to access group: g", "/c",
                     "; the user needs Read on the Group", id="group"),
        pytest.param(
            "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match", "/c",
            "; the checkpoint's state was written by 'dedupe' or a transform with other columns, "
            "or by a version whose 'dedupe' lost an upsert's deletes: give the job a new "
            "checkpoint (an upsert can safely read all records again)", id="state",
        ),
        pytest.param("cannot assign instance of scala.collection.generic.DefaultSerializationProxy "
                     "to field org.apache.spark.DataSourceRDDPartition.inputPartitions", "/c",
                     "; the executors may lack the assignor-bridge jar: add the flags that "
                     "`assignor jars` prints",
                     id="no jar"),
        pytest.param("java.lang.ClassNotFoundException: io.assignorbridge.source.AssignedScan",
                     "/c", "; the executors may lack the assignor-bridge jar: add the flags that "
                     "`assignor jars` prints", id="no jar on Spark 4.2"),
        pytest.param("long overflow", "/c", "; a time is out of range: a producer may send "
                     "nanoseconds as Kafka's timestamp, which must be in milliseconds", id="time"),
        pytest.param("Error loading java.security file", None, "; raise the open-file limit: "
                     "ulimit -n 4096", id="open files"),
        pytest.param("id is null", "/c", "", id="something else"),
    ],
)  # fmt: skip
def test_known_failures_get_a_hint(message, checkpoint, hint):
    assert add_hint(message, checkpoint) == message + hint


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ConnectionRefusedError(111, "Connection refused"), id="a call after its end"),
        pytest.param(Py4JNetworkError("Answer from Java side is empty"), id="before an answer"),
        pytest.param(Py4JError("An error occurred while calling o341.isActive"), id="amid a call"),
    ],
)
def test_a_lost_jvm_is_recognized_in_all_messages_of_py4j(error: Exception):
    """Regression: during a call the message was `An error occurred while calling o341.isActive`."""
    assert summarize(error) == "Spark's JVM has ended: it was killed, or ran out of memory"


def test_deltas_remedy_is_kept_and_its_record_removed():
    """The remedy, such as an ALTER TABLE, is after the first line."""
    text = (
        "[DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT] The feature timestampNtz is needed.\n\n"
        "To do this, run:\n  ALTER TABLE t SET TBLPROPERTIES ('delta.feature.x' = 'supported')\n"
    )
    assert summarize(ValueError(text)).endswith("run: ALTER TABLE t SET TBLPROPERTIES ("
                                                 "'delta.feature.x' = 'supported')")  # fmt: skip
    violated = "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint c (id > 0) violated"
    assert summarize(ValueError(f"{violated} by row with values:\n - id : 7")) == violated


def test_a_folder_that_cannot_be_created_has_a_plain_message():
    text = "java.io.IOException: Mkdirs failed to create file:/a b/t (exists=false, cwd=file:/w)"
    assert summarize(ValueError(text)) == (
        "no permission to create the folder /a b/t, or a file is in its place"
    )


def test_a_java_error_is_not_taken_for_a_lost_jvm():
    said = "An error occurred while calling o1.f. Trace:\npy4j.Py4JException: no such method\n"
    assert summarize(Py4JError(said)) == "An error occurred while calling o1.f. Trace:"


class _JavaException:
    """A Java exception as py4j shows it, without a JVM."""

    def __init__(self, text: str) -> None:
        self._text = text

    def toString(self) -> str:
        return self._text

    def getCause(self) -> None:
        return None


@pytest.mark.parametrize("name", ["orders", "orders_" * 60])
def test_spark_finds_the_run_id_of_a_cancelled_job_after_any_query_name(name: str):
    """Spark looks for "cancelled" and the run id to tell a stopped query from a failed one."""
    cancelled = RuntimeError()
    cancelled.java_exception = _JavaException(
        "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 860 cancelled "
        f"Query {name} [id = {UUID(int=1)}, runId = {UUID(int=2)}] was stopped SQLSTATE: XXKDA\n"
        "\tat org.apache.spark.scheduler.DAGScheduler"
    )
    text = str(drop_java_trace(cancelled))
    assert all(part in text for part in ("org.apache.spark.SparkException", "cancelled"))
    assert str(UUID(int=2)) in text
    assert len(text) < 400
