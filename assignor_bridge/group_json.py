"""The JSON contract of `assignor assign`: a consumer group in, its assignment out.

Plain data in and out, no files: the CLI reads and prints. What does not have the contract's shape
raises `InputError`, which names the place; what is well formed but cannot be assigned raises the
error of whoever refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.assignors import Assignment, Assignor, Group, Member, choose
from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.lags import Offsets, lags_of
from assignor_bridge.assignors.own import configured
from assignor_bridge.assignors.protocol import after_round
from assignor_bridge.assignors.registry import lookup, names_in
from assignor_bridge.assignors.subscription import with_claim_of
from assignor_bridge.errors import OptionError
from assignor_bridge.json_values import (
    InputError,
    base64_bytes,
    by_partition,
    integer,
    known,
    listing,
    mapping,
    maybe_string,
    need,
    number,
    optional,
    parse,
    string,
    topic,
)
from assignor_bridge.model import MOST_PARTITION
from assignor_bridge.options import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_MOST_PARTITIONS = 10_000_000
#: What KIP-341's generation and the article's priority hold: an INT32.
_INT32 = (-(2**31), 2**31 - 1)
#: Capacities are relative to each other: sums and quotients of such ones stay finite.
_CAPACITY = (1e-9, 1e9)
#: What Kafka's clients answer in place of an offset where nothing is committed.
_NOT_COMMITTED = (-1, -1001)
_GROUP_KEYS = (
    "assignor", "options", "topics", "members", "lags", "offsets", "offset_reset",
    "partition_racks", "standby_replicas", "steps",
)  # fmt: skip
_MEMBER_KEYS = (
    "topics", "owned", "generation", "owned_user_data", "rack", "host", "instance", "priority",
    "capacity", "standby", "user_data",
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """What happens to a group before it is assigned again."""

    leave: tuple[str, ...] = ()
    join: tuple[Member, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    #: As it was written.
    text: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One line of input."""

    assignor: str
    group: Group
    steps: tuple[Step, ...]
    #: For the user's own assignors: `<name>.<key>` and value.
    options: tuple[tuple[str, str], ...] = ()
    #: What people should know about the input, one line a fact.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The assignment of a group at one step."""

    assignor: str
    group: Group
    assignment: Assignment
    #: Partitions that left a member that rightly owned them and is still there.
    moved: int
    #: What people should know: why assignors that are preferred were not used, and so on.
    notes: tuple[str, ...]
    step: Step | None = None

    def to_json(self) -> dict[str, Any]:
        """Give the contract's form; keys beyond it appear when they say something."""
        result: dict[str, Any] = {
            "assignor": self.assignor,
            "assignment": self.assignment.as_dict(),
        }
        if self.step is not None:
            result["step"] = dict(self.step.text)
        if any(part.count for part in self.assignment.standbys.values()):
            result["standbys"] = _plain(self.assignment.standbys)
        if self.assignment.transferring.count:
            result["withheld"] = {t: list(p) for t, p in self.assignment.transferring.items()}
        if self.notes:
            result["notes"] = list(self.notes)
        return result


def read_request(text: bytes | str) -> Request:
    """Read one line.

    Raises
    ------
    InputError
        When it does not have the contract's shape.
    """
    data = parse(text, "the group")
    known(data, _GROUP_KEYS, "the group")
    topics = _topics(need(data, "topics", "the group"), "topics")
    members = _members(need(data, "members", "the group"), "members")
    if "lags" in data and "offsets" in data:
        raise InputError("the group has both 'lags' and 'offsets': give one of them")
    reset = string(optional(data, "offset_reset", "latest"), "offset_reset")
    group = Group(
        members,
        topics,
        lags=_offset_lags(data["offsets"], reset) if "offsets" in data else _lags(data),
        partition_racks=_racks(optional(data, "partition_racks", {})),
        standby_replicas=integer(optional(data, "standby_replicas", 0), "standby_replicas", 0),
    )
    notes = []
    if "offsets" in data and reset not in ("latest", "earliest"):
        notes.append(f"offset_reset {reset[:40]!r} counts as earliest: only 'latest' reads nothing")
    return Request(
        string(data.get("assignor", "sticky"), "assignor"),
        group,
        _steps(optional(data, "steps", []), topics),
        _options(optional(data, "options", {})),
        tuple(notes),
    )


def answer(request: Request, find: Callable[[str], Assignor] = lookup) -> Answer:
    """Assign the group as it stands, without its steps."""
    return _answer(request, request.group, find, None)[0]


def answer_steps(request: Request, find: Callable[[str], Assignor] = lookup) -> list[Answer]:
    """Assign the group, then again after each step.

    Between two assignments every member comes to own what it was given, at a generation one higher.
    A cooperative assignor plays one round a step: what it withheld is given in the next.
    """
    group = request.group
    generation = max((m.generation or 0 for m in group.members), default=0)
    first, assignor = _answer(request, group, find, None)
    answers = [first]
    for count, step in enumerate(request.steps, 1):
        group = after_round(assignor, group, answers[-1].assignment, generation + count)
        group = _stepped(group, step, f"step {count}")
        then, assignor = _answer(request, group, find, step)
        answers.append(then)
    return answers


def _answer(
    request: Request, group: Group, find: Callable[[str], Assignor], step: Step | None
) -> tuple[Answer, Assignor]:
    names = names_in(request.assignor)
    choice = choose(names, group, configured(names, request.options, find).__getitem__)
    assignment = assign_checked(choice.assignor, group)
    before = claims(group).owner
    moved = int(np.count_nonzero((before >= 0) & (before != assignment.owner)))
    notes = (*request.notes, *choice.refusals, *assignment.notes)
    return Answer(choice.assignor.name, group, assignment, moved, notes, step), choice.assignor


def _stepped(group: Group, step: Step, where: str) -> Group:
    members = {m.id: m for m in group.members}
    for member_id in step.leave:
        if members.pop(member_id, None) is None:
            raise OptionError(f"{where}: {member_id!r} cannot leave, it is not in the group")
    for member in step.join:
        if member.id in members:
            raise OptionError(f"{where}: {member.id!r} cannot join, it is in the group already")
        members[member.id] = member
    topics = {**group.topics, **step.topics} if step.topics else group.topics
    return replace(group, members=tuple(members.values()), topics=topics)


def _plain(parts: Mapping[str, Mapping[str, Iterable[int]]]) -> dict[str, dict[str, list[int]]]:
    return {m: {t: list(p) for t, p in part.items()} for m, part in sorted(parts.items())}


def _steps(value: Any, topics: Mapping[str, int]) -> tuple[Step, ...]:
    """Read the steps; no step may take the group's topics, all together, beyond the limit."""
    counts, total = dict(topics), sum(topics.values())
    steps = []
    for i, described in enumerate(listing(value, "steps")):
        where = f"steps[{i}]"
        known(described, ("leave", "join", "topics"), where)
        changed = _topics(optional(described, "topics", {}), f"{where}.topics")
        for name, count in changed.items():
            total += count - counts.get(name, 0)
            counts[name] = count
        _check_total(total, f"topics after {where}")
        leave = _texts(optional(described, "leave", []), f"{where}.leave")
        join = _members(optional(described, "join", {}), f"{where}.join")
        steps.append(Step(leave, join, changed, described))
    return tuple(steps)


def _members(value: Any, where: str) -> tuple[Member, ...]:
    shared: dict[frozenset[str], frozenset[str]] = {}
    return tuple(
        _member(name, described, f"{where}.{name}", shared)
        for name, described in mapping(value, where).items()
    )


def _member(
    name: str, described: Any, where: str, shared: dict[frozenset[str], frozenset[str]]
) -> Member:
    known(described, _MEMBER_KEYS, where)
    listed = listing(need(described, "topics", where), f"{where}.topics")
    topics = frozenset(topic(t, f"{where}.topics[{i}]") for i, t in enumerate(listed))
    generation, priority = described.get("generation"), described.get("priority")
    member = Member(
        name,
        shared.setdefault(topics, topics),
        _owned(optional(described, "owned", {}), f"{where}.owned"),
        None if generation is None else integer(generation, f"{where}.generation", -1, _INT32[1]),
        rack=maybe_string(described, "rack", where),
        host=maybe_string(described, "host", where),
        instance=maybe_string(described, "instance", where),
        priority=None if priority is None else integer(priority, f"{where}.priority", *_INT32),
        capacity=number(optional(described, "capacity", 1.0), f"{where}.capacity", *_CAPACITY),
        standby=_owned(optional(described, "standby", {}), f"{where}.standby"),
        user_data=base64_bytes(described, "user_data", where),
    )
    claim = base64_bytes(described, "owned_user_data", where)
    if claim is None:
        return member
    if member.owned or generation is not None:
        raise InputError(
            f"{where} has 'owned_user_data' and 'owned' or 'generation': give one of them"
        )
    return replace(with_claim_of(member, claim), user_data=member.user_data)


def _topics(value: Any, where: str) -> dict[str, int]:
    topics = {
        topic(t, where): integer(n, f"{where}.{t}", 0, _MOST_PARTITIONS)
        for t, n in mapping(value, where).items()
    }
    _check_total(sum(topics.values()), where)
    return topics


def _check_total(partitions: int, where: str) -> None:
    if partitions > _MOST_PARTITIONS:
        raise InputError(
            f"{where} have {partitions:,} partitions, more than {_MOST_PARTITIONS:,} in all"
        )


def _owned(value: Any, where: str) -> dict[str, tuple[int, ...]]:
    return {
        topic(t, where): tuple(
            integer(p, f"{where}.{t}[{i}]", 0, MOST_PARTITION)
            for i, p in enumerate(listing(ps, f"{where}.{t}"))
        )
        for t, ps in mapping(value, where).items()
    }


def _texts(value: Any, where: str) -> tuple[str, ...]:
    return tuple(string(text, f"{where}[{i}]") for i, text in enumerate(listing(value, where)))


def _options(value: Any) -> tuple[tuple[str, str], ...]:
    options: dict[str, tuple[str, str]] = {}
    for name, given in mapping(value, "options").items():
        if not name.lower().startswith(PREFIX):
            raise InputError(
                f"options has {name[:40]!r}: options of your own assignors are expected, "
                f"'{PREFIX}<name>.<key>'"
            )
        if name.lower() in options:
            raise InputError(f"options has {name[:40]!r} twice: case makes no difference")
        options[name.lower()] = (name[len(PREFIX) :], string(given, f"options.{name}"))
    return tuple(options.values())


def _lags(data: Mapping[str, Any]) -> dict[str, dict[int, float]]:
    return {
        t: {p: number(lag, where) for p, where, lag in by_partition(of_topic, f"lags.{t}")}
        for t, of_topic in mapping(optional(data, "lags", {}), "lags").items()
    }


def _offset_lags(value: Any, reset: str) -> dict[str, dict[int, int]]:
    offsets: dict[str, dict[int, Offsets]] = {}
    for name, of_topic in mapping(value, "offsets").items():
        offsets[name] = {}
        for partition, where, given in by_partition(of_topic, f"offsets.{name}"):
            known(given, ("beginning", "latest", "committed"), where)
            committed = given.get("committed")
            if committed is not None and committed not in _NOT_COMMITTED:
                integer(committed, f"{where}.committed", 0)
            offsets[name][partition] = Offsets(
                integer(need(given, "latest", where), f"{where}.latest", 0),
                integer(optional(given, "beginning", 0), f"{where}.beginning", 0),
                None if committed in _NOT_COMMITTED else committed,
            )
    return lags_of(offsets, reset)


def _racks(value: Any) -> dict[str, dict[int, frozenset[str]]]:
    return {
        t: {
            p: frozenset(_texts(racks, where))
            for p, where, racks in by_partition(of_topic, f"partition_racks.{t}")
        }
        for t, of_topic in mapping(value, "partition_racks").items()
    }
