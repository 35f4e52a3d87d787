"""The JSON contract of `assignor assign`: a consumer group in, its assignment out.

Plain data in and out, no files: the CLI reads and prints. What does not have the contract's shape
raises `InputError`, which names the place; what is well formed but cannot be assigned raises the
error of whoever refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.assignors import Assignment, Assignor, Group, Member, choose
from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.lags import Offsets, lags_of
from assignor_bridge.assignors.registry import lookup
from assignor_bridge.assignors.subscription import with_claim_of
from assignor_bridge.errors import OptionError
from assignor_bridge.json_values import (
    InputError,
    base64_bytes,
    integer,
    known,
    listing,
    mapping,
    maybe_string,
    need,
    number,
    partition_key,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_MOST_PARTITIONS = 10_000_000
_GROUP_KEYS = (
    "assignor", "topics", "members", "lags", "offsets", "offset_reset", "partition_racks",
    "standby_replicas", "steps",
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


@dataclass(frozen=True)
class Answer:
    """The assignment of a group at one step."""

    assignor: str
    group: Group
    assignment: Assignment
    #: Partitions that left a member that rightly owned them and is still there.
    moved: int
    #: Why assignors that are preferred were not used.
    passed_over: tuple[str, ...]
    step: Step | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know about the assignment, one line a fact."""
        return (*self.passed_over, *self.assignment.notes)

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


def read_request(text: str) -> Request:
    """Read one line.

    Raises
    ------
    InputError
        When it does not have the contract's shape.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the group is not JSON: {error}") from error
    known(data, _GROUP_KEYS, "the group")
    topics = _topics(need(data, "topics", "the group"))
    members = _members(need(data, "members", "the group"))
    if "lags" in data and "offsets" in data:
        raise InputError("the group has both 'lags' and 'offsets': give one of them")
    group = Group(
        members,
        topics,
        lags=_offset_lags(data) if "offsets" in data else _lags(data.get("lags") or {}),
        partition_racks=_racks(data.get("partition_racks") or {}),
        standby_replicas=integer(data.get("standby_replicas", 0), "standby_replicas", 0),
    )
    steps = listing(data.get("steps") or [], "steps")
    return Request(
        string(data.get("assignor", "sticky"), "assignor"),
        group,
        tuple(_step(step, f"steps[{i}]") for i, step in enumerate(steps)),
    )


def answer(request: Request, find: Callable[[str], Assignor] = lookup) -> Answer:
    """Assign the group as it stands, without its steps."""
    return _answer(request.assignor, request.group, find, None)


def answer_steps(request: Request, find: Callable[[str], Assignor] = lookup) -> list[Answer]:
    """Assign the group, then again after each step.

    Between two assignments every member comes to own what it was given, at a generation one higher.
    A cooperative assignor plays one round a step: what it withheld is given in the next.
    """
    group = request.group
    generation = max((m.generation or 0 for m in group.members), default=0)
    answers = [_answer(request.assignor, group, find, None)]
    for count, step in enumerate(request.steps, 1):
        group = group.after(answers[-1].assignment, generation + count)
        group = _stepped(group, step, f"step {count}")
        answers.append(_answer(request.assignor, group, find, step))
    return answers


def _answer(names: str, group: Group, find: Callable[[str], Assignor], step: Step | None) -> Answer:
    choice = choose(names, group, find)
    assignment = assign_checked(choice.assignor, group)
    before = claims(group).owner
    moved = int(np.count_nonzero((before >= 0) & (before != assignment.owner)))
    return Answer(choice.assignor.name, group, assignment, moved, choice.refusals, step)


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


def _step(value: Any, where: str) -> Step:
    known(value, ("leave", "join", "topics"), where)
    leave = tuple(string(m, f"{where}.leave") for m in listing(value.get("leave") or [], where))
    return Step(leave, _members(value.get("join") or {}), _topics(value.get("topics") or {}), value)


def _members(value: Any) -> tuple[Member, ...]:
    shared: dict[frozenset[str], frozenset[str]] = {}
    members = []
    for name, described in mapping(value, "members").items():
        where = f"members.{name}"
        known(described, _MEMBER_KEYS, where)
        listed = listing(need(described, "topics", where), f"{where}.topics")
        topics = frozenset(string(t, f"{where}.topics") for t in listed)
        generation, priority = described.get("generation"), described.get("priority")
        member = Member(
            name,
            shared.setdefault(topics, topics),
            _owned(described.get("owned") or {}, f"{where}.owned"),
            None if generation is None else integer(generation, f"{where}.generation", -1),
            rack=maybe_string(described, "rack", where),
            host=maybe_string(described, "host", where),
            instance=maybe_string(described, "instance", where),
            priority=None if priority is None else integer(priority, f"{where}.priority"),
            capacity=number(described.get("capacity", 1.0), f"{where}.capacity"),
            standby=_owned(described.get("standby") or {}, f"{where}.standby"),
            user_data=base64_bytes(described, "user_data", where),
        )
        claim = base64_bytes(described, "owned_user_data", where)
        if claim is not None:
            if member.owned or generation is not None:
                raise InputError(
                    f"{where} has 'owned_user_data' and 'owned' or 'generation': give one of them"
                )
            member = replace(with_claim_of(member, claim), user_data=member.user_data)
        members.append(member)
    return tuple(members)


def _topics(value: Any) -> dict[str, int]:
    topics = {
        t: integer(n, f"topics.{t}", 0, _MOST_PARTITIONS)
        for t, n in mapping(value, "topics").items()
    }
    if sum(topics.values()) > _MOST_PARTITIONS:
        raise InputError(f"topics have more than {_MOST_PARTITIONS} partitions in all")
    return topics


def _owned(value: Any, where: str) -> dict[str, tuple[int, ...]]:
    return {
        t: tuple(integer(p, f"{where}.{t}") for p in listing(ps, f"{where}.{t}"))
        for t, ps in mapping(value, where).items()
    }


def _lags(value: Any) -> dict[str, dict[int, float]]:
    return {
        t: {partition_key(p, f"lags.{t}"): number(lag, f"lags.{t}.{p}") for p, lag in found.items()}
        for t, found in ((t, mapping(v, f"lags.{t}")) for t, v in mapping(value, "lags").items())
    }


def _offset_lags(data: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    offsets: dict[str, dict[int, Offsets]] = {}
    for topic, of_topic in mapping(data["offsets"], "offsets").items():
        offsets[topic] = {}
        for partition, found in mapping(of_topic, f"offsets.{topic}").items():
            where = f"offsets.{topic}.{partition}"
            known(found, ("beginning", "latest", "committed"), where)
            committed = found.get("committed")
            offsets[topic][partition_key(partition, f"offsets.{topic}")] = Offsets(
                integer(need(found, "latest", where), f"{where}.latest"),
                integer(found.get("beginning") or 0, f"{where}.beginning"),
                None if committed is None else integer(committed, f"{where}.committed"),
            )
    return lags_of(offsets, string(data.get("offset_reset", "latest"), "offset_reset"))


def _racks(value: Any) -> dict[str, dict[int, frozenset[str]]]:
    return {
        t: {
            partition_key(p, f"partition_racks.{t}"): frozenset(
                string(r, f"partition_racks.{t}.{p}") for r in listing(racks, "partition_racks")
            )
            for p, racks in mapping(found, f"partition_racks.{t}").items()
        }
        for t, found in mapping(value, "partition_racks").items()
    }
