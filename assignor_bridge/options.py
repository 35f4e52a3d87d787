"""The user's options: names, types, defaults and allowed values, in one table.

Java passes what the user wrote (`.option("assignor.…")` over `spark.assignor.…`); this module says
what it means, and refuses what it does not know with the allowed names and the nearest one. Spark
lower-cases option names, so names are compared without case.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The option that names the assignors, and the prefix of all others.
STRATEGY = "assignor"
PREFIX = "assignor."

#: The assignor that is used when options are given but none is named.
FLAGSHIP = "lag-aware-sticky"
#: Stands in place of the list: this stream keeps Spark's own mapping, whatever the session says.
NONE = "none"
#: Names of the table of `assignors.registry`, which takes a while to import; a test compares.
BUILT_IN = frozenset({
    "range", "roundrobin", "sticky", "cooperative-sticky", "constrained-cooperative-sticky",
    "uniform", "lag-aware", FLAGSHIP, "failover", "streams",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """The effective options of one query."""

    #: Assignors in order of preference.
    assignors: tuple[str, ...] = (FLAGSHIP,)
    #: Whether a partition may be read by several tasks in one batch.
    split: bool = True
    #: How much longer than the ideal the busiest slot may take, as a share of the ideal.
    max_imbalance: float = 0.05
    #: No task with fewer records, as long as there is another to join it to; None for no limit.
    min_records_per_task: int | None = None
    #: No task with more records (a partition that may not be split excepted); None for no limit.
    max_records_per_task: int | None = None
    #: Tasks that a slot's share may be cut into.
    tasks_per_slot: int = 1
    #: What Java does when planning fails: Spark's own mapping for that batch, or fail the query.
    on_error: Literal["fallback", "fail"] = "fallback"
    #: Which reader the tasks use: one consumer a slot, or Spark's own, one a partition.
    reader: Literal["shared", "spark"] = "shared"
    #: For `failover`: host patterns with the priority of executors there, first match first.
    priorities: tuple[tuple[str, int], ...] = ()
    #: For `streams`: further executors that a partition is told to prefer, after its own.
    standby_replicas: int = 0
    #: How long Java waits for a plan, in milliseconds.
    plan_timeout_ms: int = 10_000
    #: Consumer group that completed batches are committed to; None for none.
    commit_group: str | None = None
    #: File on the driver to which Java writes each batch's snapshot and plan; None for none.
    plan_log: str | None = None
    #: For the user's own assignors: what is none of ours, without the prefix, as it was written.
    own: tuple[tuple[str, str], ...] = ()
    #: Spark's own `minPartitions`: a floor for the number of tasks.
    min_partitions: int | None = None
    #: Spark's own `maxRecordsPerPartition`: a cap of records per task.
    max_records_per_partition: int | None = None

    def with_tasks(self, least: int | None) -> PlannerOptions:
        """Return these, with `minPartitions` of at least so many; None asks for nothing."""
        if least is None:
            return self
        return replace(self, min_partitions=max(least, self.min_partitions or 0))

    @property
    def task_cap_records(self) -> int | None:
        """The smaller of the two caps of records per task; None when neither is set."""
        caps = [c for c in (self.max_records_per_task, self.max_records_per_partition) if c]
        return min(caps, default=None)


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError
    return lowered == "true"


def _share(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and 0 <= value <= 10):
        raise ValueError
    return value


def _whole(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise ValueError
        return value

    return read


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        lowered = text.strip().lower()
        if lowered not in allowed:
            raise ValueError
        return lowered

    return read


def _priorities(text: str) -> tuple[tuple[str, int], ...]:
    pairs = []
    for part in text.split(","):
        pattern, equals, number = part.partition("=")
        if not equals or not pattern.strip():
            raise ValueError
        pairs.append((pattern.strip(), int(number)))
    return tuple(pairs)


def _group(text: str) -> str:
    name = text.strip()
    if not name or not name.isprintable() or len(name) > 255:
        raise ValueError
    return name


def _local_file(text: str) -> str:
    path = text.strip()
    if not path or not path.isprintable() or "://" in path or path.endswith("/"):
        raise ValueError
    return path


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table: how an option is written, read and described."""

    #: As documented: `assignor.maxImbalance`.
    name: str
    #: Field of `PlannerOptions`.
    attribute: str
    read: Callable[[str], object]
    #: What a value may be, for the error message and the docs.
    allowed: str
    meaning: str


OPTIONS: tuple[Option, ...] = (
    Option("assignor.split", "split", _boolean, "true or false",
           "whether a partition may be read by several tasks in one batch"),
    Option("assignor.maxImbalance", "max_imbalance", _share, "a number from 0 to 10",
           "how much longer than the ideal the busiest slot may take (0.05 is 5%)"),
    Option("assignor.minRecordsPerTask", "min_records_per_task", _whole(1), "a whole number from 1",
           "no task with fewer records, as long as there is another to join it to"),
    Option("assignor.maxRecordsPerTask", "max_records_per_task", _whole(1), "a whole number from 1",
           "no task with more records; makes more tasks than assignor.tasksPerSlot when it must"),
    Option("assignor.tasksPerSlot", "tasks_per_slot", _whole(1, 64), "a whole number from 1 to 64",
           "tasks that a slot's share may be cut into, longest first"),
    Option("assignor.onError", "on_error", _one_of("fallback", "fail"), "fallback or fail",
           "when planning fails: Spark's own mapping for that batch, or fail the query"),
    Option("assignor.reader", "reader", _one_of("shared", "spark"), "shared or spark",
           "one consumer a slot, or Spark's own reader, one consumer a partition"),
    Option("assignor.priorities", "priorities", _priorities,
           "host patterns with whole numbers, such as ondemand-*=10,spot-*=1",
           "for failover: the best class of executors that is present reads everything"),
    Option("assignor.standbyReplicas", "standby_replicas", _whole(0, 16),
           "a whole number from 0 to 16",
           "for streams: further executors that a task is told to prefer, after its own"),
    Option("assignor.planTimeoutMs", "plan_timeout_ms", _whole(1, 86_400_000),
           "a whole number of milliseconds from 1",
           "how long the driver waits for a plan before assignor.onError applies"),
    Option("assignor.commitGroup", "commit_group", _group, "the name of a consumer group",
           "commit each completed batch's end offsets to it, for Kafka's own tools to see"),
    Option("assignor.planLog", "plan_log", _local_file, "the path of a local file",
           "append each batch's snapshot and plan to this file of the driver's machine, for "
           "`assignor plan`; at 64 MB it becomes FILE.1"),
)  # fmt: skip

#: Spark's own options that are heeded as well.
SPARK_OPTIONS: tuple[Option, ...] = (
    Option("minPartitions", "min_partitions", _whole(1), "a whole number from 1",
           "Spark's own: a floor for the number of tasks"),
    Option("maxRecordsPerPartition", "max_records_per_partition", _whole(1),
           "a whole number from 1", "Spark's own: a cap of records per task"),
)  # fmt: skip

_BY_LOWER_NAME = {option.name.lower(): option for option in (*OPTIONS, *SPARK_OPTIONS)}


def parse_options(given: Mapping[str, str]) -> PlannerOptions:
    """Read what the user wrote.

    Names are compared without case. Those that are neither `assignor`, `assignor.*` nor one of
    Spark's two are somebody else's and left alone. Names of assignors are checked where they are
    looked up, because the user may bring their own; so are `assignor.<name>.<key>`, which go to
    the own assignor of that name (`own.configured`).

    Raises
    ------
    OptionError
        For an unknown `assignor.*` name, a value out of range, or two that contradict.
    """
    values: dict[str, object] = {}
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
        option = _BY_LOWER_NAME.get(lowered)
        if option is not None:
            try:
                values[option.attribute] = option.read(text)
            except ValueError:
                raise OptionError(
                    f"option {option.name!r} is {text!r}: {option.allowed} is expected"
                ) from None
        elif lowered.startswith(PREFIX):
            unknown.append(key)
    options = PlannerOptions(**values)  # type: ignore[arg-type]  # the table maps names to types
    brings_own = not (BUILT_IN | {NONE}).issuperset(options.assignors)
    for key in unknown:
        if not brings_own or "." not in key[len(PREFIX) :].strip("."):
            raise OptionError(_unknown(key))
    if unknown:
        own = tuple((key[len(PREFIX) :], str(given[key])) for key in unknown)
        options = replace(options, own=own)
    least, most = options.min_records_per_task, options.task_cap_records
    if least and most and least > most:
        raise OptionError(
            f"option 'assignor.minRecordsPerTask' is {least}, more than the {most} records that a "
            "task may have at most: lower it"
        )
    return options


def effective(options: PlannerOptions) -> dict[str, object]:
    """All values in force, by documented name, as JSON values."""
    shown: dict[str, object] = {STRATEGY: ",".join(options.assignors)}
    for option in (*OPTIONS, *SPARK_OPTIONS):
        value = getattr(options, option.attribute)
        if option.attribute == "priorities":
            value = ",".join(f"{pattern}={number}" for pattern, number in value) or None
        shown[option.name] = value
    shown.update((PREFIX + name, value) for name, value in options.own)
    return shown


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise OptionError(
            f"option {STRATEGY!r} is {text!r}: the name of an assignor is expected, "
            f"such as {FLAGSHIP!r}, or several separated by commas"
        )
    if len(names) > 1 and any(name.lower() == NONE for name in names):
        raise OptionError(
            f"option {STRATEGY!r} is {text!r}: {NONE!r} leaves the stream to Spark's own mapping "
            "and stands alone; take it out of the list"
        )
    return names


def _unknown(key: str) -> str:
    allowed = [option.name for option in OPTIONS]
    lowered = {name.lower().removeprefix(PREFIX): name for name in allowed}
    near = difflib.get_close_matches(key.lower().removeprefix(PREFIX), lowered, n=1, cutoff=0.4)
    hint = f"; did you mean {lowered[near[0]]!r}?" if near else "."
    return f"unknown option {key!r}{hint} Allowed are {', '.join(allowed)}"
