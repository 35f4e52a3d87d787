"""Check that a job's brokers answer and have its topics; seed topics for `--with-broker`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from streaming.kafka.servers import parse_servers
from streaming.kafka.topics import create_topic, delete_topics
from streaming.metrics.outlets import check_port
from streaming.pipeline.config.base import SERVERS
from streaming.pipeline.job_errors import JobError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError, Message
    from pyspark.sql import SparkSession

    from streaming.pipeline.config.loading import LoadedJob
    from streaming.pipeline.config.referenced_files import Record

_CONNECT_TIMEOUT_S = 5.0
_RESPONSE_TIMEOUT_S = 15
_FLUSH_TIMEOUT_S = 120.0
#: Number of partitions of a created topic without `seed`.
_DEFAULT_PARTITIONS = 4
#: Part of Kafka's error for a topic that another process has just created.
_TOPIC_EXISTS = "already exists"


def check_network(loaded_job: LoadedJob) -> None:
    """Raise MetricsError if the metrics port is taken, JobError if a cluster is unreachable."""
    check_port(loaded_job.job.metrics)
    key_path_by_servers: dict[str, str] = {}
    for key_path, options, _ in loaded_job.job.iterate_broker_uses():
        key_path_by_servers.setdefault(options[SERVERS], key_path)
    for servers, key_path in key_path_by_servers.items():
        _check_connection(loaded_job, key_path, servers)


def _check_connection(loaded_job: LoadedJob, key_path: str, servers: str) -> None:
    reason = ""
    for address in parse_servers(SERVERS, servers):
        try:
            socket.create_connection(address, _CONNECT_TIMEOUT_S).close()
        except (OSError, ValueError) as error:
            reason = str(getattr(error, "strerror", None) or error)
        else:
            return
    problem = f"no broker answers at {servers!r} ({reason}): check the address, and start a broker"
    raise loaded_job.make_error(key_path, problem, JobError)


def check_topics(spark: SparkSession, loaded_job: LoadedJob) -> None:
    """Raise JobError unless Kafka, with each section's options, lists all topics given by name."""
    topics_by_client: dict[tuple[tuple[str, str], ...], Any] = {}
    for key_path, options, topics in loaded_job.job.iterate_broker_uses():
        kafka_options = {k: v for k, v in options.items() if k.startswith("kafka.")}
        client_options = {k.removeprefix("kafka."): v for k, v in kafka_options.items()}
        client_key = tuple(sorted(client_options.items()))
        if topics and client_key not in topics_by_client:
            prefix = f"the broker at {options[SERVERS]!r} does not list its topics: "
            with loaded_job.wrap_errors(key_path, JobError, prefix):
                topics_by_client[client_key] = _list_topics(spark, client_options)
        for topic in topics:
            if topic not in topics_by_client[client_key]:
                problem = (
                    f"topic {topic!r} does not exist, or the user lacks Describe on it: create it, "
                    "correct its name, or grant Describe"
                )
                raise loaded_job.make_error(key_path, problem, JobError)


def _list_topics(spark: SparkSession, client_options: Mapping[str, str]) -> Any:
    """Return the topics that the user may describe, as a Java set, because there may be many."""
    jvm: Any = spark.sparkContext._jvm
    properties = jvm.java.util.HashMap()
    timeout_ms = _RESPONSE_TIMEOUT_S * 1000
    timeouts = dict.fromkeys(("default.api.timeout.ms", "request.timeout.ms"), timeout_ms)
    for key, value in {**client_options, **timeouts}.items():
        properties.put(key, str(value))
    package = jvm.org.apache.kafka.clients.admin
    admin = package.Admin.create(properties)
    try:
        return admin.listTopics(package.ListTopicsOptions().listInternal(True)).names().get()
    finally:
        admin.close(jvm.java.time.Duration.ZERO)


def seed_topics(
    loaded_job: LoadedJob, records_by_topic: dict[str, list[Record]], bootstrap_servers: str
) -> dict[str, int]:
    """Create the missing topics with their seed records; return the record count of each.

    Raises JobError if the broker does not answer, or records are not delivered. The topic is then
    deleted, so that a new run seeds it.
    """
    uses = loaded_job.job.iterate_broker_uses()
    partition_counts = {topic: _DEFAULT_PARTITIONS for _, _, topics in uses for topic in topics}
    partition_counts |= {topic: seed.partitions for topic, seed in loaded_job.job.seed.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    try:
        existing_topics = admin.list_topics(timeout=2 * _RESPONSE_TIMEOUT_S).topics
    except KafkaException as error:
        raise JobError(f"the broker at {bootstrap_servers!r} does not answer: {error}") from error
    record_count_by_topic = {}
    for topic, partition_count in partition_counts.items():
        if topic not in existing_topics:
            try:
                create_topic(bootstrap_servers, topic, partition_count)
                records = records_by_topic.get(topic, [])
                record_count_by_topic[topic] = _send_records(bootstrap_servers, topic, records)
            except BaseException as error:
                if _TOPIC_EXISTS not in str(error):
                    delete_topics(bootstrap_servers, [topic])
                raise
    return record_count_by_topic


def _send_records(bootstrap_servers: str, topic: str, records: list[Record]) -> int:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50})
    failures: list[str] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error.str())

    for key, value in records:
        try:
            producer.produce(topic, value, key, on_delivery=on_delivery)
        except BufferError:
            producer.flush(_FLUSH_TIMEOUT_S)
            producer.produce(topic, value, key, on_delivery=on_delivery)
        except KafkaException as error:  # such as a record above the size limit
            failures.append(error.args[0].str())
    queued_count = producer.flush(_FLUSH_TIMEOUT_S)
    if queued_count or failures:
        reason = failures[0] if failures else f"no answer within {_FLUSH_TIMEOUT_S:g} s"
        counts = f"{queued_count + len(failures):,} of {len(records):,}"
        problem = f"not all seed records of topic {topic!r} were delivered ({counts} were not)"
        raise JobError(f"{problem}: {reason}")
    return len(records)
