"""The models of a job's sources: options of Spark and the assignor, and how records are read."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from assignor_bridge.options import BUILT_IN, NONE, OPTIONS, PREFIX, parse_options
from streaming.kafka.servers import check_topic
from streaming.pipeline.config.base import (
    OF_KAFKA,
    Columns,
    Count,
    Interval,
    OptionText,
    Section,
    require_one,
)
from streaming.pipeline.config.sinks import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self


def _by_partition(number: str) -> str:
    """Return the pattern of JSON with a number for each partition of each topic."""
    return _json_object(r"[\w.-]+", _json_object(r"\d+", rf"(?:{number})"))


def _json_object(key: str, value: str) -> str:
    member = rf'\s*"{key}"\s*:\s*{value}\s*'
    return rf"\{{{member}(?:,{member})*\}}"


#: What Spark's Kafka source takes in addition to `kafka.*`.
_SPARK_OPTIONS = {
    "subscribe": "Topics, separated by commas.",
    "subscribePattern": "A pattern of topic names.",
    "assign": "Topics with partitions, as JSON.",
    "startingOffsets": "Where a new checkpoint begins: `earliest` (our default), `latest` or JSON.",
    "startingTimestamp": "Begin at this time, in milliseconds.",
    "startingOffsetsByTimestamp": "Begin at times by partition, as JSON.",
    "startingOffsetsByTimestampStrategy": "`error` or `latest`, when no offset matches.",
    "failOnDataLoss": "Whether lost offsets fail the query; Spark's default is `true`.",
    "maxOffsetsPerTrigger": "Most records of a batch.",
    "minOffsetsPerTrigger": "Fewest records of a batch; it waits for them.",
    "maxTriggerDelay": "How long to wait for them at most.",
    "minPartitions": "Least number of tasks.",
    "maxRecordsPerPartition": "Most records of a task.",
    "includeHeaders": "Whether a column `headers` is read; for raw records only.",
    "groupIdPrefix": "Prefix of the consumer group's name.",
    "kafkaConsumer.pollTimeoutMs": "How long executors poll.",
    "fetchOffset.numRetries": "Retries of the offset look-up.",
    "fetchOffset.retryIntervalMs": "Pause between them.",
}
_FLAG = (r"(?i)true|false", "true or false")
_FROM_0 = (r"\d{1,9}", "a whole number from 0")
_FROM_1 = (r"0*[1-9]\d{0,17}", "a whole number from 1")
_OFFSETS = 'earliest, latest, or offsets such as {"orders": {"0": 23, "1": -2}}'
_TIMES = 'milliseconds such as {"orders": {"0": 1700000000000}}'
#: What Spark can read as the value of such an option: a pattern, and its words.
_VALUES = {
    "startingOffsets": (rf"(?i)earliest|latest|{_by_partition(r'-[12]|[0-9]+')}", _OFFSETS),
    "startingTimestamp": (r"\d{1,18}", "milliseconds since 1970"),
    "startingOffsetsByTimestamp": (_by_partition("[0-9]+"), _TIMES),
    "startingOffsetsByTimestampStrategy": (r"(?i)error|latest", "error or latest"),
    "failOnDataLoss": _FLAG,
    "maxOffsetsPerTrigger": _FROM_1,
    "minOffsetsPerTrigger": _FROM_1,
    "maxTriggerDelay": (r"(?i)\d{1,9}(?:us|ms|s|m|min|h|d)?", "a time such as 15m"),
    "minPartitions": _FROM_1,
    "maxRecordsPerPartition": _FROM_1,
    "includeHeaders": _FLAG,
    "kafkaConsumer.pollTimeoutMs": _FROM_0,
    "fetchOffset.numRetries": _FROM_0,
    "fetchOffset.retryIntervalMs": _FROM_0,
}
_STARTING = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")


class Records(Section):
    """How the records of a source are read."""

    format: Literal["raw", "json", "avro", "csv"] = "raw"
    """`raw` leaves Kafka's columns as they are."""
    schema_: str | None = Field(None, alias="schema")
    """Columns as DDL (`id BIGINT, name STRING`), or a file with them (.ddl, .json: Spark's JSON,
    .avsc: Avro). A file is looked for next to the job's YAML."""
    key: str | None = None
    """Columns of Kafka's key as DDL: the key's text or a JSON object for one, a JSON object for
    several. They fill the rows of tombstones, and are added where the schema lacks them. The
    default is the key column of an upsert, if it has one."""
    bad_records: Literal["fail", "drop", "dead_letter"] = "fail"
    """What happens to a record that cannot be read. All are counted."""
    dead_letter: DeadLetter | None = None
    """For `bad_records: dead_letter`: the table or topic."""
    confluent: bool = True
    """For Avro: whether values begin with Confluent's five bytes."""
    schema_id: Count | None = None
    """For Avro: the schema's id; a record with another id is bad."""
    reader_options: dict[str, OptionText] = Field({}, alias="options")
    """Options of Spark's JSON, CSV or Avro reader, such as `sep`."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = {*self.model_dump(by_alias=True, exclude_defaults=True)}
        if self.format == "raw":
            if without_use := sorted(given - {"format", "schema_id", "confluent"}):
                raise ValueError(f"{without_use[0]!r} needs a format: json, avro or csv")
        elif self.schema_ is None:
            raise ValueError(f"format {self.format!r} needs a 'schema': DDL or a file")
        if self.format != "avro" and (without_use := sorted(given & {"schema_id", "confluent"})):
            raise ValueError(f"{without_use[0]!r} needs 'format: avro'")
        if (self.bad_records == "dead_letter") != (self.dead_letter is not None):
            raise ValueError("'bad_records: dead_letter' and 'dead_letter:' belong together")
        options = {name.lower() for name in self.reader_options}  # as Spark reads them
        for name in ("mode", "columnNameOfCorruptRecord", "avroSchema"):
            if name.lower() in options:
                raise ValueError(f"option {name!r} is set by the job itself: use 'bad_records'")
        return self


class Watermark(Section):
    """How late rows may arrive."""

    column: str
    """Column with the time of the event."""
    delay: Interval = "10 minutes"
    """How late a row may arrive."""


def topics_of(options: Mapping[str, str]) -> list[str]:
    """Return the topics of the options `subscribe` or `assign`."""
    subscribed = [t.strip() for t in options.get("subscribe", "").split(",") if t.strip()]
    with contextlib.suppress(ValueError, RecursionError):  # Spark says what is wrong with it
        assigned = json.loads(options.get("assign", "{}"))
        if isinstance(assigned, dict):
            return [*subscribed, *assigned]
    return subscribed


class Source(Section):
    """A Kafka source; further keys are options of Kafka, Spark and the assignor."""

    records: Records = Records()
    """How its records are read."""
    watermark: Watermark | None = None
    """How late rows may arrive."""
    dedupe: Columns = ()
    """Drop rows that repeat these columns: within the watermark, or forever without one (the state
    then grows)."""
    assignor: str = "lag-aware-sticky"
    """The assignor, or several in order of preference; `none` for Spark's mapping, whatever the
    session says."""
    #: `parse_options` knows which of the assignors' options there are; in JSON Schema those of the
    #: user's own ones are open.
    PREFIXES: ClassVar[dict[str, str]] = {**OF_KAFKA, PREFIX: r"^assignor\.[^.]+\..+"}
    OPTIONS: ClassVar[dict[str, str]] = {
        **_SPARK_OPTIONS,
        **{option.name: option.meaning[0].upper() + option.meaning[1:] + "." for option in OPTIONS},
    }

    @property
    def spark_options(self) -> dict[str, str]:
        """Options for `spark.readStream`, without the job's own `kafka.*`."""
        options = self.options
        if not any(name in options for name in _STARTING):
            options["startingOffsets"] = "earliest"
        return options

    @property
    def topics(self) -> list[str]:
        """The topics of `subscribe` or `assign`."""
        return topics_of(self.options)

    def reads(self, topic: str) -> bool:
        """Whether it reads a topic; Spark searches the name for the pattern.

        Java's patterns have what Python's have not: such a pattern reads no topic here.
        """
        pattern = self.options.get("subscribePattern")
        with contextlib.suppress(re.error, OverflowError, RecursionError):
            return topic in self.topics or (
                pattern is not None and re.search(pattern, topic) is not None
            )
        return False

    @property
    def lets_event_times_drift_apart(self) -> bool:
        """Whether limited batches are shared so that a short backlog gets ahead in event time."""
        options = parse_options({**self.options, "assignor": self.assignor})
        return options.shares_batches and options.align_event_time is None

    def named_assignor(self, *, session_names_one: bool) -> str | None:
        """Return the option `assignor`; None where the source leaves it to the session."""
        if session_names_one and "assignor" not in self.model_fields_set:
            return None
        return self.assignor  # `none`, too: it opts out of the session's

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        ways = ("subscribe", "subscribePattern", "assign")
        require_one({name: self.options.get(name) for name in ways})
        for name, value in self.options.items():  # Spark would refuse or misread it much later
            pattern, expected = _VALUES.get(name, ("(?s).*", ""))
            if not re.fullmatch(pattern, value, re.ASCII):
                raise ValueError(f"option {name!r} is {value!r}: {expected} is expected")
        for topic in self.topics:
            check_topic(topic)
        for name in parse_options({**self.options, "assignor": self.assignor}).assignors:
            if name not in BUILT_IN | {NONE} and ":" not in name:
                from assignor_bridge.assignors.loading import find  # the table takes a while

                find(name)
        headers = self.options.get("includeHeaders", "false").lower() == "true"
        if headers and self.records.format != "raw":
            raise ValueError("'includeHeaders' adds a column only where records are raw")
        return self
