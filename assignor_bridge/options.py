"""The user's options: names, types, defaults, and allowed values in one table.

Java passes the options as written (`.option("assignor.…")` overrides `spark.assignor.…`), and this
module parses them. Spark lower-cases option names, so names are compared without case.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from assignor_bridge import option_kinds as kinds
from assignor_bridge.errors import OptionError, describe_unknown_name, elide

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The option that names the assignors.
_ASSIGNOR = "assignor"
#: Prefix of all other options.
PREFIX = "assignor."

#: Default assignor if options are set but no assignor is named.
LAG_AWARE_STICKY = "lag-aware-sticky"
#: Maximum tail tasks per slot if `assignor.tail=auto`; more shortened no simulated stream.
AUTO_TAIL_TASKS_PER_SLOT = 6
#: Set alone to keep Spark's default assignment for a stream, whatever the session sets.
NONE = "none"
#: Assignors in `assignors.registry`, copied because importing it is slow; a test compares both.
BUILT_IN = frozenset({
    "range", "roundrobin", "sticky", "cooperative-sticky", "constrained-cooperative-sticky",
    "uniform", "lag-aware", LAG_AWARE_STICKY, "failover", "streams",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    """The name, kind, and description of an option."""

    #: For example `assignor.maxImbalance`.
    name: str
    kind: kinds.OptionKind
    meaning: str


def _define(name: str, default: object, kind: kinds.OptionKind, meaning: str) -> Any:
    return field(default=default, metadata={"option": Option(name, kind, meaning)})


# fmt: off
@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """The effective options of one query; None stands for "not set"."""

    #: Assignors in order of preference.
    assignors: tuple[str, ...] = (LAG_AWARE_STICKY,)
    split: bool = _define("assignor.split", True, kinds.BOOLEAN,
        "whether several tasks may read one partition in the same batch")
    max_imbalance: float = _define("assignor.maxImbalance", 0.05, kinds.IMBALANCE,
        "how far the busiest slot's planned load may exceed an even share (0.05 is 5%)")
    min_records_per_task: int | None = _define("assignor.minRecordsPerTask", None, kinds.COUNT,
        "minimum records per task; smaller tasks take records from others, or are joined")
    #: A partition that may not be split can exceed it.
    max_records_per_task: int | None = _define("assignor.maxRecordsPerTask", None, kinds.COUNT,
        "maximum records per task; may need more tasks than assignor.tasksPerSlot")
    tasks_per_slot: int = _define("assignor.tasksPerSlot", 1, kinds.TASKS,
        "maximum tasks per slot; a slot's ranges are divided among them, largest first and uncut")
    #: "auto", "off", or a number.
    tail: str | int = _define("assignor.tail", "auto", kinds.TAIL,
        "maximum tail tasks per slot, which any free slot takes to compensate for unpredictable "
        "times (auto: up to 6), or off")
    #: A float is a share, an int a number of slots.
    slots: float | None = _define("assignor.slots", None, kinds.SLOTS,
        "share or number of task slots for this query, if several queries share the executors")
    on_error: Literal["fallback", "fail"] = _define("assignor.onError", "fallback",
        kinds.one_of("fallback", "fail"),
        "if planning fails: use Spark's default assignment for that batch, or fail the query")
    reader: Literal["shared", "spark"] = _define("assignor.reader", "shared",
        kinds.one_of("shared", "spark"),
        "shared: one consumer per slot; spark: Spark's own reader, one consumer per partition")
    #: The first matching pattern applies.
    priorities: tuple[tuple[str, int], ...] = _define("assignor.priorities", (), kinds.PRIORITIES,
        "for failover: only the present executors with the highest number read partitions")
    standby_replicas: int = _define("assignor.standbyReplicas", 0, kinds.STANDBYS,
        "for the assignor streams: number of standby executors per task; Spark tries their hosts "
        "if the task's own executor is busy")
    plan_timeout_ms: int = _define("assignor.planTimeoutMs", 10_000, kinds.MILLISECONDS,
        "how long the driver waits for a plan before assignor.onError applies")
    commit_group: str | None = _define("assignor.commitGroup", None, kinds.GROUP,
        "consumer group to which the end offsets of completed batches are committed, for Kafka's "
        "tools")
    plan_log: str | None = _define("assignor.planLog", None, kinds.LOCAL_FILE,
        "file on the driver to which each batch's snapshot and plan are appended, for "
        "`assignor lab plan`; at 64 MB it is renamed to FILE.1")
    #: Seconds.
    align_event_time: float | None = _define("assignor.alignEventTime", None, kinds.DURATION,
        "maximum lead of a partition over the slowest one, by Kafka's timestamps")
    max_future_seconds: float = _define("assignor.maxFutureSeconds", 60.0, kinds.SECONDS_OR_ZERO,
        "for assignor.alignEventTime: ignore timestamps with a larger lead over the driver's clock")
    target_batch_seconds: float | None = _define("assignor.targetBatchSeconds", None, kinds.SECONDS,
        "limit a batch to about this many seconds, estimated from earlier batches")
    max_bytes_per_trigger: int | None = _define("assignor.maxBytesPerTrigger", None, kinds.COUNT,
        "limit a batch to about this many bytes of keys and values")
    fairness: Literal["proportional", "even", "deadline"] = _define(
        "assignor.fairness", "proportional", kinds.one_of("proportional", "even", "deadline"),
        "how partitions share a limited batch: by lag, as in Spark; equally; or equally after the "
        "records that retention deletes soon")
    #: Weight by topic, in lower case because Spark lower-cases option names.
    weights: tuple[tuple[str, float], ...] = ()
    #: Minimum records by topic, in lower case.
    floors: tuple[tuple[str, int], ...] = ()
    zone_price_per_gb: float = _define("assignor.zonePricePerGb", 0.02, kinds.PRICE,
        "price per GB read from a zone other than the executor's; if 0, zones are not used")
    rack: str | None = _define("assignor.rack", None, kinds.ENVIRONMENT,
        "environment variable that holds an executor's rack (zone), instead of "
        "SPARK_EXECUTOR_ATTRIBUTE_RACK")
    rack_file: str | None = _define("assignor.rackFile", None, kinds.LOCAL_FILE,
        "file on the driver with the rack of each executor host, one HOST=RACK per line")
    min_partitions: int | None = _define("minPartitions", None, kinds.COUNT,
        "Spark's option: minimum number of tasks")
    max_records_per_partition: int | None = _define("maxRecordsPerPartition", None, kinds.COUNT,
        "Spark's option: maximum records per task")
    #: Options of custom assignors: names without the prefix, and values.
    custom_options: tuple[tuple[str, str], ...] = ()

    @property
    def limits_batches(self) -> bool:
        """Whether the planner limits batches; otherwise only Spark does."""
        limits = (self.target_batch_seconds, self.max_bytes_per_trigger, self.align_event_time)
        return any(limits) or self.sets_batch_shares

    @property
    def sets_batch_shares(self) -> bool:
        """Whether an option sets the partitions' shares of a limited batch."""
        return bool(self.weights or self.floors) or self.fairness != "proportional"

    @property
    def needs_times(self) -> bool:
        """Whether admission needs Kafka's timestamps of the first unread records."""
        return self.align_event_time is not None or self.fairness == "deadline"

    @property
    def max_tail_tasks_per_slot(self) -> int:
        """Maximum number of tail tasks per slot; 0 without a tail."""
        if isinstance(self.tail, int):
            return self.tail
        return AUTO_TAIL_TASKS_PER_SLOT if self.tail == "auto" else 0

    def raise_min_partitions(self, min_tasks: int | None) -> PlannerOptions:
        """Return options with `minPartitions` of at least `min_tasks`; unchanged if it is None."""
        if min_tasks is None:
            return self
        return replace(self, min_partitions=max(min_tasks, self.min_partitions or 0))

    @property
    def task_cap_records(self) -> int | None:
        """The lower of the two limits on records per task; None if neither is set."""
        limits = [n for n in (self.max_records_per_task, self.max_records_per_partition) if n]
        return min(limits, default=None)
# fmt: on


#: Options by `PlannerOptions` field.
_OPTION_BY_FIELD: dict[str, Option] = {
    each.name: each.metadata["option"] for each in fields(PlannerOptions) if each.metadata
}
_FIELD_AND_OPTION_BY_LOWER_NAME = {o.name.lower(): (f, o) for f, o in _OPTION_BY_FIELD.items()}
#: The planner's options, excluding Spark's.
OPTIONS = tuple(option for option in _OPTION_BY_FIELD.values() if option.name.startswith(PREFIX))
_WEIGHT_MEANING = "weight of a partition of this topic in a limited batch; the default is 1"
_FLOOR_MEANING = "minimum records of this topic in each limited batch, if it has that many"
#: Options per topic, by `PlannerOptions` field.
_TOPIC_OPTION_BY_FIELD = {
    "weights": Option("assignor.weight.<topic>", kinds.WEIGHT, _WEIGHT_MEANING),
    "floors": Option("assignor.floor.<topic>", kinds.COUNT, _FLOOR_MEANING),
}
PER_TOPIC = tuple(_TOPIC_OPTION_BY_FIELD.values())


def parse_options(source: Mapping[str, str]) -> PlannerOptions:
    """Parse a source's options; ignore all but `assignor`, `assignor.*`, and a few of Spark's.

    `own.configure_assignors` checks assignor names and custom assignors' options
    (`assignor.<name>.<key>`) later. Raises `OptionError` for invalid or contradictory options.
    """
    values: dict[str, object] = {}
    topic_values: dict[str, dict[str, object]] = {name: {} for name in _TOPIC_OPTION_BY_FIELD}
    unknown_keys: list[str] = []
    key_by_name: dict[str, str] = {}
    for key in sorted(source):
        lower_name, text = key.lower(), str(source[key])
        if lower_name in key_by_name and (lower_name == _ASSIGNOR or lower_name.startswith(PREFIX)):
            raise OptionError(f"option {key!r} is set twice: remove {key_by_name[lower_name]!r}")
        key_by_name[lower_name] = key
        if lower_name == _ASSIGNOR:
            values["assignors"] = _parse_assignor_names(text)
        elif lower_name in _FIELD_AND_OPTION_BY_LOWER_NAME:
            field_name, option = _FIELD_AND_OPTION_BY_LOWER_NAME[lower_name]
            values[field_name] = _parse_value(option.kind, option.name, text)
        elif (topic_option := _match_topic_option(lower_name)) is not None:
            field_name, topic = topic_option
            kind = _TOPIC_OPTION_BY_FIELD[field_name].kind
            topic_values[field_name][topic] = _parse_value(kind, key, text)
        elif lower_name.startswith(PREFIX):
            unknown_keys.append(key)
    values |= {name: tuple(by_topic.items()) for name, by_topic in topic_values.items()}
    options = PlannerOptions(**values)  # type: ignore[arg-type]  # the table maps names to types
    has_custom_assignor = not (BUILT_IN | {NONE}).issuperset(options.assignors)
    for key in unknown_keys:
        if not has_custom_assignor or "." not in key[len(PREFIX) :].strip("."):
            names = [option.name for option in (*OPTIONS, *PER_TOPIC)]
            raise OptionError(describe_unknown_name("option", key, names, PREFIX))
    if unknown_keys:
        custom_options = tuple((key[len(PREFIX) :], str(source[key])) for key in unknown_keys)
        options = replace(options, custom_options=custom_options)
    min_records, max_records = options.min_records_per_task, options.task_cap_records
    if min_records and max_records and min_records > max_records:
        raise OptionError(
            f"option 'assignor.minRecordsPerTask' is {min_records}, above the maximum of "
            f"{max_records} (assignor.maxRecordsPerTask or maxRecordsPerPartition): lower it"
        )
    if options.slots is not None and "failover" in options.assignors:
        raise OptionError(
            "option 'assignor.slots' cannot be combined with the assignor 'failover', which plans "
            "for all slots of the highest priority: remove one of them"
        )
    if options.limits_batches:
        _check_limits(options, {key.lower(): str(value) for key, value in source.items()})
    return options


def list_effective_options(options: PlannerOptions) -> dict[str, object]:
    """Return the values of all options as JSON values, by documented name."""
    values: dict[str, object] = {_ASSIGNOR: ",".join(options.assignors)}
    for field_name, option in _OPTION_BY_FIELD.items():
        value = getattr(options, field_name)
        if field_name == "priorities":
            value = ",".join(f"{pattern}={number}" for pattern, number in value) or None
        values[option.name] = value
    for field_name, option in _TOPIC_OPTION_BY_FIELD.items():
        prefix = option.name.removesuffix("<topic>")
        values.update((prefix + topic, value) for topic, value in getattr(options, field_name))
    values.update((PREFIX + name, value) for name, value in options.custom_options)
    return values


def _parse_value(kind: kinds.OptionKind, name: str, text: str) -> object:
    try:
        return kind.parse(text)
    except (ValueError, KeyError):
        raise OptionError(
            f"option {name!r} is {text!r}: {kind.allowed_values} is expected"
        ) from None


def _match_topic_option(lower_name: str) -> tuple[str, str] | None:
    """Return the field and topic of a per-topic option, or None for other options."""
    for field_name, option in _TOPIC_OPTION_BY_FIELD.items():
        prefix = option.name.removesuffix("<topic>")
        if lower_name.startswith(prefix) and lower_name != prefix:
            return field_name, lower_name.removeprefix(prefix)
    return None


def _check_limits(options: PlannerOptions, source: Mapping[str, str]) -> None:
    """Raise `OptionError` if the limit options conflict with other options or the topics."""
    max_offsets = source.get("maxoffsetspertrigger")
    is_limited = max_offsets or options.target_batch_seconds or options.max_bytes_per_trigger
    if options.sets_batch_shares and not is_limited:
        raise OptionError(
            "option 'assignor.fairness', a weight, or a floor needs a limit on the batch's size: "
            "set maxOffsetsPerTrigger, assignor.targetBatchSeconds, or assignor.maxBytesPerTrigger"
        )
    if options.max_bytes_per_trigger and options.reader == "spark":
        raise OptionError(
            "option 'assignor.maxBytesPerTrigger' needs assignor.reader=shared: Spark's own reader "
            "does not report bytes; remove one of the two"
        )
    topics = _parse_topics(source)
    for field_name, option in _TOPIC_OPTION_BY_FIELD.items():
        for topic, _ in getattr(options, field_name):
            if topics and topic not in topics:
                raise OptionError(
                    f"option {option.name.replace('<topic>', topic)!r} names a topic that is not "
                    f"read: use one of {elide(sorted(topics))}"
                )
    total_floor = sum(floor for _, floor in options.floors)
    if max_offsets and max_offsets.strip().isdecimal() and 0 < int(max_offsets) <= total_floor:
        raise OptionError(
            f"the topic floors (assignor.floor.<topic>) add up to {total_floor}, which "
            f"leaves none of maxOffsetsPerTrigger={max_offsets} for other topics: lower them"
        )


def _parse_topics(source: Mapping[str, str]) -> set[str]:
    """Return the source's topics in lower case; empty if it subscribes by pattern."""
    topics = [topic.strip() for topic in source.get("subscribe", "").split(",")]
    with contextlib.suppress(ValueError, RecursionError):  # Spark reports invalid JSON
        assigned_topics = json.loads(source.get("assign", "{}"))
        topics += assigned_topics if isinstance(assigned_topics, dict) else ()
    return {topic.lower() for topic in topics if topic}


def _parse_assignor_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise OptionError(
            f"option {_ASSIGNOR!r} is {text!r}: an assignor name is expected, "
            f"such as {LAG_AWARE_STICKY!r}, or several separated by commas"
        )
    if len(names) > 1 and any(name.lower() == NONE for name in names):
        raise OptionError(
            f"option {_ASSIGNOR!r} is {text!r}: {NONE!r} keeps Spark's default assignment and "
            "excludes all others: remove it from the list"
        )
    return names
