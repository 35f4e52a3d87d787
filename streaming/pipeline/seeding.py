"""Topics for a job on the embedded broker: made, and filled from the files that `seed:` names."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pydantic import Field, ValidationError, model_validator

from streaming.kafka.topics import create_topic
from streaming.pipeline.checks import broker_uses
from streaming.pipeline.failures import JobError
from streaming.pipeline.strict import Strict, complaints

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from streaming.pipeline.loading import LoadedJob

_PARTITIONS = 4
_ANSWER_LIMIT_S = 30.0
_FLUSH_LIMIT_S = 120.0

#: A record's key and value.
Record = tuple[bytes | None, bytes | None]


class _Line(Strict):
    """A line of a seed file."""

    key: str | None = None
    value: Any = None
    bytes_: str | None = Field(None, alias="base64")

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        if self.value is not None and self.bytes_ is not None:
            raise ValueError("'value' and 'base64' exclude each other")
        return self

    def record(self) -> Record:
        """Give key and value as they are sent."""
        key = self.key.encode() if self.key is not None else None
        if self.bytes_ is not None:
            try:
                return key, base64.b64decode(self.bytes_, validate=True)
            except binascii.Error as error:
                raise ValueError(f"'base64' cannot be read: {error}") from None
        if self.value is None:
            return key, None
        return key, self.value.encode() if isinstance(self.value, str) else orjson.dumps(self.value)


def read_seeds(loaded: LoadedJob) -> dict[str, list[Record]]:
    """Read the records of each topic that the job seeds.

    Raises
    ------
    ConfigError
        With the place in the config, and the line in the file.
    """
    found = {}
    for topic, seed in loaded.job.seed.items():
        path = loaded.folder / seed.file
        try:
            found[topic] = _read(path)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            place = f"seed.{topic}.file"
            raise loaded.error(place, f"{str(path)!r} cannot be read: {why}") from None
    return found


def seed_topics(
    loaded: LoadedJob, records: dict[str, list[Record]], bootstrap_servers: str
) -> dict[str, int]:
    """Make the job's topics that are not there, and fill those that are seeded.

    Returns
    -------
    dict[str, int]
        Records that were sent, for each topic that was made.
    """
    wanted = {topic: _PARTITIONS for _, _, topics in broker_uses(loaded.job) for topic in topics}
    wanted |= {topic: seed.partitions for topic, seed in loaded.job.seed.items()}
    known = AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics(
        timeout=_ANSWER_LIMIT_S
    )
    made = {}
    for topic, partitions in wanted.items():
        if topic not in known.topics:
            create_topic(bootstrap_servers, topic, partitions)
            made[topic] = _send(bootstrap_servers, topic, records.get(topic, []))
    return made


def _read(path: Path) -> list[Record]:
    found = []
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        if not text.strip():
            continue
        data: Any = None
        try:
            data = orjson.loads(text)
            found.append(_Line.model_validate(data).record())
        except ValidationError as error:
            raise ValueError(f"line {number}: {complaints(error, data)}") from None
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return found


def _send(bootstrap_servers: str, topic: str, records: list[Record]) -> int:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50})
    for key, value in records:
        try:
            producer.produce(topic, value, key)
        except BufferError:
            producer.flush(_FLUSH_LIMIT_S)
            producer.produce(topic, value, key)
    left = producer.flush(_FLUSH_LIMIT_S)
    if left:
        raise JobError(f"topic {topic!r}: {left} of {len(records)} records were not delivered")
    return len(records)
