"""A job's brokers: whether they answer and have the topics, and topics made for `--with-broker`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from streaming.kafka.servers import read_servers
from streaming.kafka.topics import create_topic, delete_topics
from streaming.metrics.outlets import check_port
from streaming.pipeline.config.base import SERVERS
from streaming.pipeline.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError, Message
    from pyspark.sql import SparkSession

    from streaming.pipeline.config.files import Record
    from streaming.pipeline.config.loading import LoadedJob

_CONNECT_LIMIT_S = 5.0
_ANSWER_LIMIT_S = 15
_FLUSH_LIMIT_S = 120.0
_PARTITIONS = 4
#: What Kafka says of a topic that somebody else has made meanwhile.
_ANOTHERS = "already exists"


def check_network(loaded: LoadedJob) -> None:
    """Check the port for metrics, and that an address of each broker accepts connections.

    It takes a few seconds at most, and needs no Spark.
    """
    check_port(loaded.job.metrics)
    places: dict[str, str] = {}
    for place, options, _ in loaded.job.broker_uses():
        places.setdefault(options[SERVERS], place)
    for servers, place in places.items():
        _connect(loaded, place, servers)


def _connect(loaded: LoadedJob, place: str, servers: str) -> None:
    why = ""
    for address in read_servers(SERVERS, servers):
        try:
            socket.create_connection(address, _CONNECT_LIMIT_S).close()
        except (OSError, ValueError) as error:
            why = str(getattr(error, "strerror", None) or error)
        else:
            return
    raise loaded.error(
        place,
        f"no broker answers at {servers!r} ({why}): is the address right and the broker running?",
        JobError,
    )


def check_topics(spark: SparkSession, loaded: LoadedJob) -> None:
    """Check that named topics exist, with the very client and options that Spark will use."""
    known: dict[tuple[tuple[str, str], ...], Any] = {}
    for place, options, topics in loaded.job.broker_uses():
        client = {k.removeprefix("kafka."): v for k, v in options.items() if k.startswith("kafka.")}
        identity = tuple(sorted(client.items()))
        if topics and identity not in known:
            silent = f"the broker at {options[SERVERS]!r} does not answer: "
            with loaded.at(place, JobError, silent):
                known[identity] = _topics_of(spark, client)
        for topic in topics:
            if topic not in known[identity]:
                what = (
                    f"topic {topic!r} does not exist, or the user lacks Describe on it: create it, "
                    "correct its name, or grant that"
                )
                raise loaded.error(place, what, JobError)


def _topics_of(spark: SparkSession, client: Mapping[str, str]) -> Any:
    """Return the topics that the user may see, as a set of Java's: there may be very many."""
    jvm: Any = spark.sparkContext._jvm
    properties = jvm.java.util.HashMap()
    limits = dict.fromkeys(("default.api.timeout.ms", "request.timeout.ms"), _ANSWER_LIMIT_S * 1000)
    for key, value in {**client, **limits}.items():
        properties.put(key, str(value))
    package = jvm.org.apache.kafka.clients.admin
    admin = package.Admin.create(properties)
    try:
        return admin.listTopics(package.ListTopicsOptions().listInternal(True)).names().get()
    finally:
        admin.close(jvm.java.time.Duration.ZERO)


def seed_topics(
    loaded: LoadedJob, records: dict[str, list[Record]], bootstrap_servers: str
) -> dict[str, int]:
    """Make the job's topics that are not there, and fill those that are seeded.

    Return the number of records that were sent, for each topic that was made.
    """
    topics = {topic: _PARTITIONS for _, _, named in loaded.job.broker_uses() for topic in named}
    topics |= {topic: seed.partitions for topic, seed in loaded.job.seed.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    try:
        known = admin.list_topics(timeout=2 * _ANSWER_LIMIT_S).topics
    except KafkaException as error:
        raise JobError(f"the broker at {bootstrap_servers!r} does not answer: {error}") from error
    made = {}
    for topic, partitions in topics.items():
        if topic not in known:
            try:
                create_topic(bootstrap_servers, topic, partitions)
                made[topic] = _send(bootstrap_servers, topic, records.get(topic, []))
            except BaseException as error:
                if _ANOTHERS not in str(error):  # else the next run would take a part for all
                    delete_topics(bootstrap_servers, [topic])
                raise
    return made


def _send(bootstrap_servers: str, topic: str, records: list[Record]) -> int:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50})
    failures: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error.str())

    for key, value in records:
        try:
            producer.produce(topic, value, key, on_delivery=delivered)
        except BufferError:
            producer.flush(_FLUSH_LIMIT_S)
            producer.produce(topic, value, key, on_delivery=delivered)
        except KafkaException as error:  # it is too large for the producer itself
            failures.append(error.args[0].str())
    missing = producer.flush(_FLUSH_LIMIT_S)
    if missing or failures:
        why = failures[0] if failures else f"no answer within {_FLUSH_LIMIT_S:g} s"
        raise JobError(
            f"topic {topic!r}: {missing + len(failures)} of {len(records)} records were not "
            f"delivered: {why}"
        )
    return len(records)
