"""The JSON contract of `assignor lab assign`: a consumer group in, its assignment out.

Plain data in and out, no files: the CLI reads and prints. What does not have the contract's shape
raises `InputError`, which names the place; what is well formed but cannot be assigned raises the
error of whoever refused.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_validator,
)

from assignor_bridge.assignors import Assignment, Group, Member, choose
from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.claims import weigh_claims, with_claim_of
from assignor_bridge.assignors.lag_aware import Offsets
from assignor_bridge.assignors.own import configured
from assignor_bridge.assignors.registry import lookup, names_in
from assignor_bridge.errors import OptionError
from assignor_bridge.model import LONGEST_TOPIC, MOST_OFFSET, MOST_PARTITION
from assignor_bridge.options import PREFIX
from streaming.human_json.json_input import JsonObject, parse, read_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignor_bridge.assignors import Assignor

_MOST_PARTITIONS = 10_000_000
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
#: What Kafka's clients answer in place of an offset where nothing is committed.
_NOT_COMMITTED = (-1, -1001)


def _few_partitions(topics: dict[str, int]) -> dict[str, int]:
    total = sum(topics.values())
    if total > _MOST_PARTITIONS:
        raise ValueError(f"{total:,} partitions in all: at most {_MOST_PARTITIONS:,} are expected")
    return topics


def _partition_number(key: str) -> int:
    if not _NUMBER.fullmatch(key) or int(key) > MOST_PARTITION:
        raise ValueError(f"a partition number from 0 to {MOST_PARTITION} is expected as key")
    return int(key)


def _own_options(options: dict[str, str]) -> dict[str, str]:
    """Check options of the user's own assignors; return them without their prefix."""
    seen: set[str] = set()
    for name in options:
        if not name.lower().startswith(PREFIX):
            raise ValueError(
                f"{name[:40]!r}: options of your own assignors are expected, '{PREFIX}<name>.<key>'"
            )
        if name.lower() in seen:
            raise ValueError(f"{name[:40]!r} twice: names are compared without case")
        seen.add(name.lower())
    return {name[len(PREFIX) :]: value for name, value in options.items()}


def _decode(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("text in base64 is expected")  # noqa: TRY004  (pydantic's)
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise ValueError(f"not base64: {error}") from error


Topic = Annotated[str, Field(max_length=LONGEST_TOPIC)]
#: A partition as key of an object; written in one way only, so that none is there twice.
PartitionKey = Annotated[int, BeforeValidator(_partition_number)]
_Partition = Annotated[int, Field(strict=True, ge=0, le=MOST_PARTITION)]
_Topics = Annotated[
    dict[Topic, Annotated[int, Field(strict=True, ge=0, le=_MOST_PARTITIONS)]],
    AfterValidator(_few_partitions),
]
_Owned = dict[Topic, list[_Partition]]
_Bytes = Annotated[bytes, BeforeValidator(_decode)]
_Int32 = Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)]
_Lag = Annotated[float, Field(strict=True, ge=-MOST_OFFSET, le=MOST_OFFSET)]
_Offset = Annotated[int, Field(strict=True, ge=0, le=MOST_OFFSET)]


class _Offsets(JsonObject):
    beginning: _Offset = 0
    latest: _Offset
    committed: Annotated[
        _Offset | None, BeforeValidator(lambda at: None if at in _NOT_COMMITTED else at)
    ] = None


class _Member(JsonObject):
    topics: list[Topic]
    owned: _Owned = Field({})
    generation: Annotated[_Int32, Field(ge=-1)] | None = None  # KIP-341
    owned_user_data: _Bytes | None = None
    rack: str | None = None
    host: str | None = None
    instance: str | None = None
    priority: _Int32 | None = None
    #: Relative to each other: sums and quotients of such ones stay finite.
    capacity: Annotated[float, Field(strict=True, ge=1e-9, le=1e9)] = 1.0
    standby: _Owned = Field({})
    user_data: _Bytes | None = None

    @model_validator(mode="after")
    def _has_one_claim(self) -> _Member:
        if self.owned_user_data is not None and (self.owned or self.generation is not None):
            raise ValueError("'owned_user_data' and 'owned' or 'generation': give one of them")
        return self


class GroupChange(JsonObject):
    """What happens to a group before it is assigned again."""

    leave: list[str] = Field([])
    join: dict[str, _Member] = Field({})
    topics: _Topics = Field({})
    #: As it was written.
    _text: dict[str, Any] = PrivateAttr()

    @model_validator(mode="wrap")
    @classmethod
    def _keep_text(cls, data: Any, handler: ModelWrapValidatorHandler[GroupChange]) -> GroupChange:
        step = handler(data)
        step._text = data
        return step


class Request(JsonObject):
    """One line of input."""

    assignor: str = "sticky"
    options: Annotated[dict[str, str], AfterValidator(_own_options)] = Field({})
    topics: _Topics
    members: dict[str, _Member]
    lags: dict[str, dict[PartitionKey, _Lag]] = Field({})
    offsets: dict[str, dict[PartitionKey, _Offsets]] | None = None
    offset_reset: str = "latest"
    partition_racks: dict[str, dict[PartitionKey, frozenset[str]]] = Field({})
    standby_replicas: _Offset = 0
    steps: list[GroupChange] = Field([])

    @model_validator(mode="after")
    def _check(self) -> Request:
        if {"lags", "offsets"} <= self.model_fields_set:
            raise ValueError("both 'lags' and 'offsets': give one of them")
        topics = dict(self.topics)
        for i, step in enumerate(self.steps):
            topics.update(step.topics)
            try:
                _few_partitions(topics)
            except ValueError as error:
                raise ValueError(f"topics after steps[{i}]: {error}") from None
        return self

    @cached_property
    def group(self) -> Group:
        """The group before its steps."""
        lags: Mapping[str, Mapping[int, float]] = self.lags
        if self.offsets is not None:
            lags = {
                topic: {p: Offsets(**dict(o)).lag(self.offset_reset) for p, o in of_topic.items()}
                for topic, of_topic in self.offsets.items()
            }
        members = _members(self.members)
        return Group(members, self.topics, lags, self.partition_racks, self.standby_replicas)

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know about the input, one line per fact."""
        reset = self.offset_reset
        if self.offsets is None or reset in ("latest", "earliest"):
            return ()
        return (f"offset_reset {reset[:40]!r} counts as earliest: only 'latest' reads nothing",)


@dataclass(frozen=True)
class Answer:
    """The assignment of a group at one step."""

    assignor: Assignor
    group: Group
    assignment: Assignment
    #: Partitions that left a member that rightly owned them and is still there.
    moved: int
    #: What people should know: why assignors that are preferred were not used, and so on.
    notes: tuple[str, ...]
    #: What led to it, as it was written; None for the group as given.
    step: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Return the contract's form; keys beyond it appear when they say something."""
        assignment = self.assignment
        result: dict[str, Any] = {
            "assignor": self.assignor.name,
            "assignment": assignment.as_dict(),
        }
        if self.step is not None:
            result["step"] = dict(self.step)
        if any(part.count for part in assignment.standbys.values()):
            result["standbys"] = {
                member: {t: list(ps) for t, ps in part.items()}
                for member, part in sorted(assignment.standbys.items())
            }
        if assignment.transferring.count:
            result["withheld"] = {t: list(ps) for t, ps in assignment.transferring.items()}
        if self.notes:
            result["notes"] = list(self.notes)
        return result


def read_request(text: bytes | str) -> Request:
    """Read one line.

    Raises InputError when it does not have the contract's shape.
    """
    return read_model(Request, parse(text, "the group"), "the group")


def _members(given: Mapping[str, _Member]) -> tuple[Member, ...]:
    shared: dict[frozenset[str], frozenset[str]] = {}
    members = []
    for name, described in given.items():
        facts = dict(described)
        topics, claim = frozenset(facts.pop("topics")), facts.pop("owned_user_data")
        member = Member(name, shared.setdefault(topics, topics), **facts)
        if claim is not None:
            member = replace(with_claim_of(member, claim), user_data=member.user_data)
        members.append(member)
    return tuple(members)


def answer(request: Request, find: Callable[[str], Assignor] = lookup) -> Answer:
    """Assign the group as it stands, without its steps."""
    return answer_steps(request.model_copy(update={"steps": []}), find)[0]


def answer_steps(request: Request, find: Callable[[str], Assignor] = lookup) -> list[Answer]:
    """Assign the group, then again after each step.

    Between two assignments every member comes to own what it was given, at a generation one higher.
    A cooperative assignor plays one round a step: what it withheld is given in the next.
    """
    group, answers = request.group, list[Answer]()
    generation = max((m.generation or 0 for m in group.members), default=0)
    names, options = names_in(request.assignor), tuple(request.options.items())
    for count, step in enumerate((None, *request.steps)):
        if step is not None:
            last = answers[-1]
            group = group.after(last.assignment, generation + count, last.assignor.on_assignment)
            group = _apply_change(group, step, f"step {count}")
        choice = choose(names, group, configured(names, options, find).__getitem__)
        assignment = assign_checked(choice.assignor, group)
        owner = weigh_claims(group).owner
        moved = int(np.count_nonzero((owner >= 0) & (owner != assignment.owner)))
        notes = (*request.notes, *choice.refusals, *assignment.notes)
        text = None if step is None else step._text
        answers.append(Answer(choice.assignor, group, assignment, moved, notes, text))
    return answers


def _apply_change(group: Group, step: GroupChange, where: str) -> Group:
    members = {m.id: m for m in group.members}
    for member_id in step.leave:
        if members.pop(member_id, None) is None:
            raise OptionError(f"{where}: {member_id!r} cannot leave: it is not in the group")
    for member in _members(step.join):
        if member.id in members:
            raise OptionError(f"{where}: {member.id!r} cannot join: it is already in the group")
        members[member.id] = member
    topics = {**group.topics, **step.topics} if step.topics else group.topics
    return replace(group, members=tuple(members.values()), topics=topics)
