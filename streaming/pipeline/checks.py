"""What is checked before a query starts: files and modules, then broker and topics."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

from streaming.pipeline.failures import JobError, first_line
from streaming.pipeline.frames import python_function
from streaming.pipeline.schemas import check_schema_text, schema_text
from streaming.pipeline.sinks_config import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from streaming.pipeline.config import Job
    from streaming.pipeline.loading import LoadedJob

_SERVERS = "kafka.bootstrap.servers"
_CONNECT_LIMIT_S = 5.0
_ANSWER_LIMIT_MS = 15_000
_ADDRESS = re.compile(r"(?:\w+://)?\[?([^\]]+?)\]?:(\d+)")


def check_offline(loaded: LoadedJob) -> None:
    """Check schema files and Python functions; needs neither Spark nor a broker.

    Raises
    ------
    ConfigError
        With the place in the config.
    """
    job = loaded.job
    for name, source in job.all_sources.items():
        records = source.records
        if records.schema_ is None:
            continue
        try:
            check_schema_text(records.format, schema_text(records.schema_, loaded.folder))
        except ValueError as error:
            place = f"{job.place('source', name)}.records.schema"
            raise loaded.error(place, str(error)) from None
    for name, transform in job.all_transforms.items():
        if transform.python is not None:
            python_function(loaded, job.place("transform", name), transform.python)


def check_brokers(loaded: LoadedJob) -> None:
    """Check that each broker's address accepts connections; a few seconds at most.

    Raises
    ------
    JobError
        When none of the addresses does.
    """
    asked: set[str] = set()
    for place, options, _ in broker_uses(loaded.job):
        servers = options[_SERVERS]
        if servers not in asked:
            asked.add(servers)
            _connect(loaded, place, servers)


def check_topics(spark: SparkSession, loaded: LoadedJob) -> None:
    """Check that named topics exist, with the very client and options that Spark will use.

    Raises
    ------
    JobError
        For a topic that is not there, or a broker that does not answer.
    """
    known: dict[tuple[tuple[str, str], ...], set[str]] = {}
    for place, options, topics in broker_uses(loaded.job):
        client = {k.removeprefix("kafka."): v for k, v in options.items() if k.startswith("kafka.")}
        identity = tuple(sorted(client.items()))
        if not topics:
            continue
        if identity not in known:
            try:
                known[identity] = _topics_of(spark, client)
            except Exception as error:  # noqa: BLE001  (told in one line, whatever it is)
                raise JobError(
                    loaded.redact(
                        f"{loaded.title}: {place}: the broker at {client['bootstrap.servers']!r} "
                        f"does not answer: {first_line(error)}"
                    )
                ) from None
        missing = [topic for topic in topics if topic not in known[identity]]
        if missing:
            raise JobError(
                loaded.redact(
                    f"{loaded.title}: {place}: topic {missing[0]!r} is not there: create it, or "
                    "correct its name"
                )
            )


def broker_uses(job: Job) -> Iterator[tuple[str, Mapping[str, str], list[str]]]:
    """Give each use of a broker: its place in the config, its options, the topics it names."""
    for name, source in job.all_sources.items():
        options = job.kafka_options(source.options)
        topics = [t.strip() for t in options.get("subscribe", "").split(",") if t.strip()]
        letter = source.records.dead_letter
        if letter is not None and letter.topic is not None:
            topics.append(letter.topic)
        yield job.place("source", name), options, topics
    for name, sink in job.all_sinks.items():
        if isinstance(sink, KafkaSink):
            yield job.place("sink", name), job.kafka_options(sink.options), [sink.topic]


def _connect(loaded: LoadedJob, place: str, servers: str) -> None:
    why = "no address in it"
    for server in servers.split(","):
        match = _ADDRESS.fullmatch(server.strip())
        if match is None:
            raise loaded.error(place, f"{_SERVERS} {server.strip()!r}: host:port is expected")
        try:
            socket.create_connection((match[1], int(match[2])), _CONNECT_LIMIT_S).close()
        except (OSError, OverflowError) as error:
            why = str(getattr(error, "strerror", None) or error)
        else:
            return
    raise JobError(
        loaded.redact(
            f"{loaded.title}: {place}: no broker answers at {servers!r} ({why}): is the address "
            "right and the broker running?"
        )
    )


def _topics_of(spark: SparkSession, client: Mapping[str, str]) -> set[str]:
    jvm: Any = spark.sparkContext._jvm
    properties = jvm.java.util.HashMap()
    for key, value in client.items():
        properties.put(key, value)
    properties.put("default.api.timeout.ms", str(_ANSWER_LIMIT_MS))
    properties.put("request.timeout.ms", str(_ANSWER_LIMIT_MS))
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    try:
        return {str(name) for name in admin.listTopics().names().get()}
    finally:
        admin.close(jvm.java.time.Duration.ZERO)
