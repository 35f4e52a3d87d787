"""The user's options: names, types, defaults and allowed values, in one table.

Java passes what the user wrote (`.option("assignor.…")` over `spark.assignor.…`); this module says
what it means, and refuses what it does not know with the allowed names and the nearest one. Spark
lower-cases option names, so names are compared without case.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from assignor_bridge.errors import OptionError, describe_unknown_name, elide
from assignor_bridge.option_kinds import (
    AHEAD,
    BOOLEAN,
    COUNT,
    DURATION,
    ENVIRONMENT,
    GROUP,
    LOCAL_FILE,
    MILLISECONDS,
    PRICE,
    PRIORITIES,
    SECONDS,
    SHARE,
    SLOTS,
    STANDBYS,
    TASKS,
    WEIGHT,
    Kind,
    one_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The option that names the assignors, and the prefix of all others.
STRATEGY = "assignor"
PREFIX = "assignor."

#: The assignor that is used when options are given but none is named.
LAG_AWARE_STICKY = "lag-aware-sticky"
#: Stands in place of the list: this stream keeps Spark's own mapping, whatever the session says.
NONE = "none"
#: Names of the table of `assignors.registry`, which takes a while to import; a test compares.
BUILT_IN = frozenset({
    "range", "roundrobin", "sticky", "cooperative-sticky", "constrained-cooperative-sticky",
    "uniform", "lag-aware", LAG_AWARE_STICKY, "failover", "streams",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    """An option as it is documented."""

    #: Such as `assignor.maxImbalance`.
    name: str
    kind: Kind
    meaning: str


def _option(name: str, default: object, kind: Kind, meaning: str) -> Any:
    return field(default=default, metadata={"option": Option(name, kind, meaning)})


# fmt: off
@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """The effective options of one query; None stands for "not set"."""

    #: Assignors in order of preference.
    assignors: tuple[str, ...] = (LAG_AWARE_STICKY,)
    split: bool = _option("assignor.split", True, BOOLEAN,
        "whether several tasks may read one partition in the same batch")
    max_imbalance: float = _option("assignor.maxImbalance", 0.05, SHARE,
        "how far above an even share the busiest slot may be planned (0.05 is 5%)")
    min_records_per_task: int | None = _option("assignor.minRecordsPerTask", None, COUNT,
        "smaller tasks are joined until each has so many records, as far as there are others")
    #: A partition that may not be split excepted.
    max_records_per_task: int | None = _option("assignor.maxRecordsPerTask", None, COUNT,
        "most records of a task; makes more tasks than assignor.tasksPerSlot where it must")
    tasks_per_slot: int = _option("assignor.tasksPerSlot", 1, TASKS,
        "tasks that a slot's pieces may be divided among, longest first; pieces are not cut")
    #: A share is a float, a number of slots an int.
    slots: float | None = _option("assignor.slots", None, SLOTS,
        "how many of the executors' task slots this query plans for, where several share them")
    on_error: Literal["fallback", "fail"] = _option("assignor.onError", "fallback",
        one_of("fallback", "fail"),
        "when planning fails: use Spark's own mapping for that batch, or fail the query")
    reader: Literal["shared", "spark"] = _option("assignor.reader", "shared",
        one_of("shared", "spark"),
        "shared: one consumer per slot; spark: Spark's own reader, one consumer per partition")
    #: First match first.
    priorities: tuple[tuple[str, int], ...] = _option("assignor.priorities", (), PRIORITIES,
        "for failover: the executors with the highest number present read everything")
    standby_replicas: int = _option("assignor.standbyReplicas", 0, STANDBYS,
        "for streams: how many further executors a task prefers after its own")
    plan_timeout_ms: int = _option("assignor.planTimeoutMs", 10_000, MILLISECONDS,
        "how long the driver waits for a plan before assignor.onError applies")
    commit_group: str | None = _option("assignor.commitGroup", None, GROUP,
        "group to which the end offsets of completed batches are committed, for Kafka's own "
        "tools")
    plan_log: str | None = _option("assignor.planLog", None, LOCAL_FILE,
        "file on the driver to which each batch's snapshot and plan are appended, for "
        "`assignor lab plan`; at 64 MB it becomes FILE.1")
    #: In seconds.
    align_event_time: float | None = _option("assignor.alignEventTime", None, DURATION,
        "how far beyond the slowest partition others may be read, by Kafka's timestamps")
    max_future_seconds: float = _option("assignor.maxFutureSeconds", 60.0, AHEAD,
        "timestamps further ahead of the driver's clock do not count for assignor.alignEventTime")
    target_batch_seconds: float | None = _option("assignor.targetBatchSeconds", None, SECONDS,
        "limit a batch to about this many seconds, estimated from the batches before it")
    max_bytes_per_trigger: int | None = _option("assignor.maxBytesPerTrigger", None, COUNT,
        "limit a batch to about this many bytes of keys and values")
    fairness: Literal["proportional", "even", "deadline"] = _option(
        "assignor.fairness", "proportional", one_of("proportional", "even", "deadline"),
        "how a limited batch is shared: in proportion to lag, as Spark does; evenly; or first to "
        "what retention deletes soon, then evenly")
    #: By topic, whose names are lower-cased: Spark compares names of options without case.
    weights: tuple[tuple[str, float], ...] = ()
    floors: tuple[tuple[str, int], ...] = ()
    zone_price_per_gb: float = _option("assignor.zonePricePerGb", 0.02, PRICE,
        "what a GB costs that is read in another zone than its replicas; 0: zones do not count")
    rack: str | None = _option("assignor.rack", None, ENVIRONMENT,
        "variable of executors' environment that names their rack (zone), in place of "
        "SPARK_EXECUTOR_ATTRIBUTE_RACK")
    rack_file: str | None = _option("assignor.rackFile", None, LOCAL_FILE,
        "file on the driver with the racks of executors' hosts, a line HOST=RACK each")
    min_partitions: int | None = _option("minPartitions", None, COUNT,
        "Spark's own: the least number of tasks")
    max_records_per_partition: int | None = _option("maxRecordsPerPartition", None, COUNT,
        "Spark's own: the most records of a task")
    #: For the user's own assignors: what is none of ours, without the prefix, as it was written.
    own: tuple[tuple[str, str], ...] = ()

    @property
    def limits_batches(self) -> bool:
        """Whether the planner says how far a batch goes; else Spark alone does."""
        limits = (self.target_batch_seconds, self.max_bytes_per_trigger, self.align_event_time)
        return any(limits) or self.shares_batches

    @property
    def shares_batches(self) -> bool:
        """Whether the user says how a limited batch is shared."""
        return bool(self.weights or self.floors) or self.fairness != "proportional"

    @property
    def needs_times(self) -> bool:
        """Whether admission needs Kafka's timestamps of the records at which reading goes on."""
        return self.align_event_time is not None or self.fairness == "deadline"

    def with_tasks(self, least: int | None) -> PlannerOptions:
        """Return these, with `minPartitions` at least this high; None asks for nothing."""
        if least is None:
            return self
        return replace(self, min_partitions=max(least, self.min_partitions or 0))

    @property
    def task_cap_records(self) -> int | None:
        """The smaller of the two caps of records per task; None when neither is set."""
        caps = [c for c in (self.max_records_per_task, self.max_records_per_partition) if c]
        return min(caps, default=None)
# fmt: on


#: By field of `PlannerOptions`.
_BY_FIELD: dict[str, Option] = {
    each.name: each.metadata["option"] for each in fields(PlannerOptions) if each.metadata
}
_BY_LOWER_NAME = {option.name.lower(): (name, option) for name, option in _BY_FIELD.items()}
#: Our options, by their documented names.
OPTIONS = tuple(option for option in _BY_FIELD.values() if option.name.startswith(PREFIX))
#: Those that name a topic behind the last dot, by field of `PlannerOptions`.
_BY_TOPIC: dict[str, Option] = {
    "weights": Option("assignor.weight.<topic>", WEIGHT,
        "share of a partition of this topic in a limited batch, where others count 1"),
    "floors": Option("assignor.floor.<topic>", COUNT,
        "least records of this topic in each limited batch, as long as it has them"),
}  # fmt: skip
PER_TOPIC = tuple(_BY_TOPIC.values())


def parse_options(given: Mapping[str, str]) -> PlannerOptions:
    """Read what the user wrote.

    Names are compared without case. Those that are neither `assignor`, `assignor.*` nor one of
    Spark's two are somebody else's and left alone. Names of assignors are checked where they are
    looked up, because the user may bring their own; so are `assignor.<name>.<key>`, which go to
    the own assignor of that name (`own.configure_assignors`).

    Raises
    ------
    OptionError
        For an unknown `assignor.*` name, a value out of range, or two that contradict.
    """
    values: dict[str, object] = {}
    per_topic: dict[str, dict[str, object]] = {name: {} for name in _BY_TOPIC}
    unknown: list[str] = []
    spelled: dict[str, str] = {}
    for key in sorted(given):
        lowered, text = key.lower(), str(given[key])
        if lowered in spelled and (lowered == STRATEGY or lowered.startswith(PREFIX)):
            raise OptionError(f"option {key!r} is given twice, also as {spelled[lowered]!r}")
        spelled[lowered] = key
        if lowered == STRATEGY:
            values["assignors"] = _names(text)
            continue
        if lowered in _BY_LOWER_NAME:
            name, option = _BY_LOWER_NAME[lowered]
            values[name] = _read(option.kind, option.name, text)
        elif (named := _topic_of(lowered)) is not None:
            name, topic = named
            per_topic[name][topic] = _read(_BY_TOPIC[name].kind, key, text)
        elif lowered.startswith(PREFIX):
            unknown.append(key)
    values |= {name: tuple(by_topic.items()) for name, by_topic in per_topic.items()}
    options = PlannerOptions(**values)  # type: ignore[arg-type]  # the table maps names to types
    brings_own = not (BUILT_IN | {NONE}).issuperset(options.assignors)
    for key in unknown:
        if not brings_own or "." not in key[len(PREFIX) :].strip("."):
            names = [option.name for option in (*OPTIONS, *PER_TOPIC)]
            raise OptionError(describe_unknown_name("option", key, names, PREFIX))
    if unknown:
        own = tuple((key[len(PREFIX) :], str(given[key])) for key in unknown)
        options = replace(options, own=own)
    least, most = options.min_records_per_task, options.task_cap_records
    if least and most and least > most:
        raise OptionError(
            f"option 'assignor.minRecordsPerTask' is {least}, more than the {most} records that a "
            "task may have at most: lower it"
        )
    if options.slots is not None and "failover" in options.assignors:
        raise OptionError(
            "option 'assignor.slots' cannot be combined with the assignor 'failover', which plans "
            "for all slots of the highest priority: leave one of the two out"
        )
    if options.limits_batches:
        _check_limits(options, {key.lower(): str(value) for key, value in given.items()})
    return options


def effective(options: PlannerOptions) -> dict[str, object]:
    """All values in force, by documented name, as JSON values."""
    shown: dict[str, object] = {STRATEGY: ",".join(options.assignors)}
    for name, option in _BY_FIELD.items():
        value = getattr(options, name)
        if name == "priorities":
            value = ",".join(f"{pattern}={number}" for pattern, number in value) or None
        shown[option.name] = value
    for name, option in _BY_TOPIC.items():
        begin = option.name.removesuffix("<topic>")
        shown.update((begin + topic, value) for topic, value in getattr(options, name))
    shown.update((PREFIX + name, value) for name, value in options.own)
    return shown


def _read(kind: Kind, name: str, text: str) -> object:
    try:
        return kind.read(text)
    except (ValueError, KeyError):
        raise OptionError(f"option {name!r} is {text!r}: {kind.allowed} is expected") from None


def _topic_of(lowered: str) -> tuple[str, str] | None:
    """Return the field and the topic of an option that names one."""
    for name, option in _BY_TOPIC.items():
        begin = option.name.removesuffix("<topic>")
        if lowered.startswith(begin) and lowered != begin:
            return name, lowered.removeprefix(begin)
    return None


def _check_limits(options: PlannerOptions, source: Mapping[str, str]) -> None:
    """Compare the options of limited batches with the limit and the topics of the source."""
    most = source.get("maxoffsetspertrigger")
    limited = most or options.target_batch_seconds or options.max_bytes_per_trigger
    if options.shares_batches and not limited:
        raise OptionError(
            "option 'assignor.fairness', a weight or a floor is set, and nothing limits a batch: "
            "set maxOffsetsPerTrigger, assignor.targetBatchSeconds or assignor.maxBytesPerTrigger"
        )
    if options.max_bytes_per_trigger and options.reader == "spark":
        raise OptionError(
            "option 'assignor.maxBytesPerTrigger' needs assignor.reader=shared: Spark's own reader "
            "does not report bytes; leave one of the two out"
        )
    topics = _topics(source)
    for name, option in _BY_TOPIC.items():
        for topic, _ in getattr(options, name):
            if topics and topic not in topics:
                raise OptionError(
                    f"option {option.name.replace('<topic>', topic)!r} names a topic that is not "
                    f"read: topics are {elide(sorted(topics))}"
                )
    floors = sum(floor for _, floor in options.floors)
    if most and most.strip().isdecimal() and 0 < int(most) <= floors:
        raise OptionError(
            f"the floors of topics (assignor.floor.<topic>) are {floors} records in all and leave "
            f"nothing of maxOffsetsPerTrigger={most} to others: lower them"
        )


def _topics(source: Mapping[str, str]) -> set[str]:
    """Return the topics that a source names, in lower case; none where it has a pattern."""
    named = [topic.strip() for topic in source.get("subscribe", "").split(",")]
    with contextlib.suppress(ValueError, RecursionError):  # Spark says what is wrong with it
        assigned = json.loads(source.get("assign", "{}"))
        named += assigned if isinstance(assigned, dict) else ()
    return {topic.lower() for topic in named if topic}


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise OptionError(
            f"option {STRATEGY!r} is {text!r}: the name of an assignor is expected, "
            f"such as {LAG_AWARE_STICKY!r}, or several separated by commas"
        )
    if len(names) > 1 and any(name.lower() == NONE for name in names):
        raise OptionError(
            f"option {STRATEGY!r} is {text!r}: {NONE!r} leaves the stream to Spark's own mapping "
            "and stands alone; take it out of the list"
        )
    return names
