"""Define the config models of sources and their record formats."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from assignor_bridge.options import BUILT_IN, NONE, OPTIONS, PREFIX, parse_options
from streaming.kafka.servers import check_topic
from streaming.pipeline.config.base import (
    KAFKA_PREFIXES,
    ColumnNames,
    Duration,
    OptionText,
    PositiveInt,
    Section,
    require_one,
)
from streaming.pipeline.config.sinks import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self


def _build_partition_pattern(number: str) -> str:
    """Return a pattern for JSON that maps each topic's partitions to matches of `number`."""
    return _build_object_pattern(r"[\w.-]+", _build_object_pattern(r"\d+", rf"(?:{number})"))


def _build_object_pattern(key: str, value: str) -> str:
    member = rf'\s*"{key}"\s*:\s*{value}\s*'
    return rf"\{{{member}(?:,{member})*\}}"


#: Options of Spark's Kafka source in addition to `kafka.*`.
_SPARK_OPTIONS = {
    "subscribe": "Topics, separated by commas.",
    "subscribePattern": "A Java regular expression for topic names.",
    "assign": "Topics with partitions, as JSON.",
    "startingOffsets": "Where a new checkpoint starts: `earliest` (the default), `latest` or JSON.",
    "startingTimestamp": "Start time for a new checkpoint, in milliseconds.",
    "startingOffsetsByTimestamp": "Start time for each partition in milliseconds, as JSON.",
    "startingOffsetsByTimestampStrategy": "What to do if no offset matches: `error` or `latest`.",
    "failOnDataLoss": "Whether lost offsets fail the query; Spark's default is `true`.",
    "maxOffsetsPerTrigger": "Maximum number of offsets in a batch.",
    "minOffsetsPerTrigger": "Minimum number of offsets for which a batch waits.",
    "maxTriggerDelay": "Maximum time to wait for `minOffsetsPerTrigger`.",
    "minPartitions": "Minimum number of tasks.",
    "maxRecordsPerPartition": "Maximum number of offsets in a task.",
    "includeHeaders": "Whether to add a `headers` column; only for raw records.",
    "groupIdPrefix": "Prefix of the consumer group's name.",
    "kafkaConsumer.pollTimeoutMs": "Timeout of a poll on the executors, in milliseconds.",
    "fetchOffset.numRetries": "Number of retries of an offset lookup.",
    "fetchOffset.retryIntervalMs": "Delay between retries of an offset lookup, in milliseconds.",
}
_FLAG = (r"(?i)true|false", "true or false")
_WHOLE_NUMBER = (r"\d{1,9}", "a whole number from 0 to 999999999")
_POSITIVE_NUMBER = (r"0*[1-9]\d{0,17}", "a whole number from 1, of at most 18 digits,")
_OFFSET_MAP_PATTERN = _build_partition_pattern(r"-[12]|[0-9]+")
_OFFSETS_FORMAT = 'earliest, latest, or offsets such as {"orders": {"0": 23, "1": -2}}'
_TIMES_FORMAT = 'milliseconds such as {"orders": {"0": 1700000000000}}'
#: Pattern of valid values, and its description, by option.
_VALID_VALUES = {
    "startingOffsets": (rf"(?i)earliest|latest|{_OFFSET_MAP_PATTERN}", _OFFSETS_FORMAT),
    "startingTimestamp": (r"\d{1,18}", "milliseconds since 1970"),
    "startingOffsetsByTimestamp": (_build_partition_pattern("[0-9]+"), _TIMES_FORMAT),
    "startingOffsetsByTimestampStrategy": (r"(?i)error|latest", "error or latest"),
    "failOnDataLoss": _FLAG,
    "maxOffsetsPerTrigger": _POSITIVE_NUMBER,
    "minOffsetsPerTrigger": _POSITIVE_NUMBER,
    "maxTriggerDelay": (r"(?i)\d{1,9}(?:us|ms|s|m|min|h|d)?", "a time such as 15m"),
    "minPartitions": _POSITIVE_NUMBER,
    "maxRecordsPerPartition": _POSITIVE_NUMBER,
    "includeHeaders": _FLAG,
    "kafkaConsumer.pollTimeoutMs": _WHOLE_NUMBER,
    "fetchOffset.numRetries": _WHOLE_NUMBER,
    "fetchOffset.retryIntervalMs": _WHOLE_NUMBER,
}
_START_OPTIONS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")


class Records(Section):
    """How a source's records are read."""

    format: Literal["raw", "json", "avro", "csv"] = "raw"
    """`raw` keeps Kafka's columns unchanged; the other formats parse the value into columns."""
    schema_: str | None = Field(None, alias="schema")
    """Columns as DDL (`id BIGINT, name STRING`), or a schema file next to the job's YAML: `.ddl`
    or `.txt` (DDL), `.json` (Spark's JSON format), or `.avsc` (Avro)."""
    key: str | None = None
    """Columns stored in Kafka's key, as DDL. A single column may be plain text or a JSON object;
    several must be a JSON object. Tombstone rows take their values from these columns. Columns
    missing from the schema are added to it. Default: an upsert's only key column."""
    bad_records: Literal["fail", "drop", "dead_letter"] = "fail"
    """What to do with records that cannot be read. They are always counted."""
    dead_letter: DeadLetter | None = None
    """For `bad_records: dead_letter`: the table or topic for bad records."""
    confluent: bool = True
    """For Avro: whether values start with Confluent's five-byte header."""
    schema_id: PositiveInt | None = None
    """For Avro: the schema id expected in Confluent's header. Records with another id are bad."""
    reader_options: dict[str, OptionText] = Field({}, alias="options")
    """Options of Spark's JSON, CSV or Avro reader, such as `sep`."""

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        set_keys = {*self.model_dump(by_alias=True, exclude_defaults=True)}
        if self.format == "raw":
            if unused_keys := sorted(set_keys - {"format", "schema_id", "confluent"}):
                raise ValueError(f"{unused_keys[0]!r} needs a format: json, avro or csv")
        elif self.schema_ is None:
            raise ValueError(f"format {self.format!r} needs a 'schema': DDL or a file")
        if self.format != "avro" and (unused_keys := sorted(set_keys & {"schema_id", "confluent"})):
            raise ValueError(f"{unused_keys[0]!r} needs 'format: avro'")
        if (self.bad_records == "dead_letter") != (self.dead_letter is not None):
            raise ValueError("'bad_records: dead_letter' and 'dead_letter:' must be used together")
        reader_options = {name.lower() for name in self.reader_options}  # Spark ignores case
        for name in ("mode", "columnNameOfCorruptRecord", "avroSchema"):
            if name.lower() in reader_options:
                key = "schema" if name == "avroSchema" else "bad_records"
                raise ValueError(f"option {name!r} is set by the job: use {key!r} instead")
        return self


class Watermark(Section):
    """The watermark of a source."""

    column: str
    """Column with the event time."""
    delay: Duration = "10 minutes"
    """Maximum lateness of a row."""


def list_topics(options: Mapping[str, str]) -> list[str]:
    """Return the topics in the options `subscribe` and `assign`, if these are valid."""
    subscribed_topics = [t.strip() for t in options.get("subscribe", "").split(",") if t.strip()]
    with contextlib.suppress(ValueError, RecursionError):  # Spark reports the error later
        assigned_topics = json.loads(options.get("assign", "{}"))
        if isinstance(assigned_topics, dict):
            return [*subscribed_topics, *assigned_topics]
    return subscribed_topics


class Source(Section):
    """A Kafka source; further keys are options of Kafka, Spark and the assignor."""

    records: Records = Records()
    """How its records are read."""
    watermark: Watermark | None = None
    """How late rows may arrive."""
    dedupe: ColumnNames = ()
    """Columns that identify duplicate rows, which are dropped: within the watermark, or forever
    without one (the state then keeps growing)."""
    assignor: str = "lag-aware-sticky"
    """The assignor, or several in order of preference. `none` selects Spark's default assignment,
    even if the session has an assignor."""
    #: `parse_options` checks the assignors' options; JSON Schema allows any, for custom assignors.
    PREFIXES: ClassVar[dict[str, str]] = {**KAFKA_PREFIXES, PREFIX: r"^assignor\.[^.]+\..+"}
    OPTIONS: ClassVar[dict[str, str]] = {
        **_SPARK_OPTIONS,
        **{option.name: option.meaning[0].upper() + option.meaning[1:] + "." for option in OPTIONS},
    }

    @property
    def spark_options(self) -> dict[str, str]:
        """The section's options for `spark.readStream`; without a start, `earliest` is added."""
        options = self.options
        if not any(name in options for name in _START_OPTIONS):
            options["startingOffsets"] = "earliest"
        return options

    @property
    def topics(self) -> list[str]:
        """The topics of `subscribe` or `assign`; empty for a pattern."""
        return list_topics(self.options)

    def reads(self, topic: str) -> bool:
        """Return whether the source reads a topic. As in Spark, a pattern may match part of a name.

        A Java pattern that Python cannot compile matches no topic.
        """
        pattern = self.options.get("subscribePattern")
        with contextlib.suppress(re.error, OverflowError, RecursionError):
            return topic in self.topics or (
                pattern is not None and re.search(pattern, topic) is not None
            )
        return False

    @property
    def lets_event_times_drift_apart(self) -> bool:
        """Whether fairness, weights, or floors let partitions get ahead of others in event time."""
        options = parse_options({**self.options, "assignor": self.assignor})
        return options.sets_batch_shares and options.align_event_time is None

    def get_assignor(self, *, session_has_one: bool) -> str | None:
        """Return the option `assignor`; None if the source uses the session's assignor."""
        if session_has_one and "assignor" not in self.model_fields_set:
            return None
        return self.assignor  # may be `none`, which overrides the session's assignor

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        topic_options = ("subscribe", "subscribePattern", "assign")
        require_one({name: self.options.get(name) for name in topic_options})
        for name, value in self.options.items():  # Spark would reject or misread it later
            pattern, expected = _VALID_VALUES.get(name, ("(?s).*", ""))
            if not re.fullmatch(pattern, value, re.ASCII):
                raise ValueError(f"option {name!r} is {value!r}: {expected} is expected")
        for topic in self.topics:
            check_topic(topic)
        for name in parse_options({**self.options, "assignor": self.assignor}).assignors:
            if name not in BUILT_IN | {NONE} and ":" not in name:
                from assignor_bridge.assignors.custom import find  # a slow import

                find(name)
        has_headers = self.options.get("includeHeaders", "false").lower() == "true"
        if has_headers and self.records.format != "raw":
            raise ValueError("'includeHeaders' is only for 'format: raw'")
        return self
