"""The loop that a user would write: confluent-kafka, pyarrow, and deltalake, in one process.

`python loop_way.py '{"servers": …, "topic": …, "partitions": …, "table": …, "interval_s": …}'`

Each commit of the Delta table has the next offset of each partition in it, as an application
transaction, so that rows and offsets are visible together. A restart continues at these offsets.
It runs in an environment of its own and imports nothing of this project.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyarrow import json as arrow_json

SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.int64()), ("key", pa.int64()), ("text", pa.string())]
)
PARSE = arrow_json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")
READ = arrow_json.ReadOptions(block_size=8 << 20)
#: Messages of one call to the consumer; the most that are in one commit.
MESSAGES_PER_CALL, MAX_MESSAGES_PER_COMMIT = 50_000, 1_000_000


def application_of(topic: str, partition: int) -> str:
    """Return the name under which a partition's offset is in the table's log."""
    return f"{topic}-{partition}"


def read_offsets(table: DeltaTable, topic: str, partitions: int) -> list[int]:
    """Return the next offset of each partition; the beginning for one that is not in the table."""
    found = [table.transaction_version(application_of(topic, p)) for p in range(partitions)]
    return [OFFSET_BEGINNING if offset is None else offset for offset in found]


def collect(consumer: Consumer, next_offsets: dict[int, int], until: float) -> list[bytes]:
    """Return the values of the messages until a time, and advance the offsets.

    If there is a backlog, read on after that time: small commits would never catch up.
    """
    values: list[bytes] = []
    is_behind = True
    while len(values) < MAX_MESSAGES_PER_COMMIT and (is_behind or time.monotonic() < until):
        messages = consumer.consume(MESSAGES_PER_CALL, timeout=0.02)
        is_behind = len(messages) == MESSAGES_PER_CALL
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            values.append(message.value())
            next_offsets[message.partition()] = message.offset() + 1
    return values


def parse(values: list[bytes]) -> pa.Table:
    """Return the records as columns."""
    lines = pa.BufferReader(b"\n".join(values))
    return arrow_json.read_json(lines, read_options=READ, parse_options=PARSE)


def main() -> None:
    """Copy the topic into the table until the process is killed."""
    config = json.loads(sys.argv[1])
    topic = config["topic"]
    Path(config["table"]).mkdir(parents=True, exist_ok=True)
    # The object is kept: opening the table reads its whole log.
    table = DeltaTable.create(config["table"], SCHEMA, mode="ignore")
    consumer = Consumer(
        {
            "bootstrap.servers": config["servers"],
            "group.id": "loop",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            # librdkafka pauses a full partition for a second by default.
            "fetch.queue.backoff.ms": 20,
            "queued.max.messages.kbytes": 128 << 10,
        }
    )
    starts = read_offsets(table, topic, config["partitions"])
    consumer.assign([TopicPartition(topic, p, offset) for p, offset in enumerate(starts)])
    next_offsets: dict[int, int] = {}
    until = time.monotonic() + config["interval_s"]
    while True:
        values = collect(consumer, next_offsets, until)
        # The next interval begins now: a slow commit does not add to it.
        until = time.monotonic() + config["interval_s"]
        if values:
            transactions = [
                Transaction(application_of(topic, p), offset) for p, offset in next_offsets.items()
            ]
            write_deltalake(
                table,
                parse(values),
                mode="append",
                commit_properties=CommitProperties(app_transactions=transactions),
            )


if __name__ == "__main__":
    main()
