"""Assign a consumer group that is given as JSON data, and apply its steps: `assignor lab assign`.

Raises InputError if the data are not JSON or do not follow the contract; OptionError if an
assignor is unknown or a step impossible; PlanError if an assignor fails or its answer is invalid.
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
from assignor_bridge.assignors.claims import add_claim, resolve_claims
from assignor_bridge.assignors.lag_aware import Offsets
from assignor_bridge.assignors.own import configure_assignors
from assignor_bridge.assignors.registry import lookup, split_names
from assignor_bridge.errors import OptionError
from assignor_bridge.model import MAX_OFFSET, MAX_PARTITION, MAX_TOPIC_LENGTH
from assignor_bridge.options import PREFIX
from streaming.human_json.json_input import JsonObject, parse_json, validate_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignor_bridge.assignors import Assignor

_MAX_PARTITIONS = 10_000_000
_PARTITION_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
#: Values that Kafka clients return instead of an offset if none is committed.
_NOT_COMMITTED = (-1, -1001)


def _check_partition_count(topics: dict[str, int]) -> dict[str, int]:
    total = sum(topics.values())
    if total > _MAX_PARTITIONS:
        raise ValueError(f"{total:,} partitions in total: at most {_MAX_PARTITIONS:,} are allowed")
    return topics


def _parse_partition_key(key: str) -> int:
    if not _PARTITION_NUMBER.fullmatch(key) or int(key) > MAX_PARTITION:
        raise ValueError(f"a partition number from 0 to {MAX_PARTITION} is expected as a key")
    return int(key)


def _strip_prefix(options: dict[str, str]) -> dict[str, str]:
    """Check the options of custom assignors, and return them without their prefix."""
    seen_names: set[str] = set()
    for name in options:
        if not name.lower().startswith(PREFIX):
            raise ValueError(
                f"{name[:40]!r} is not an option of a custom assignor: name it "
                f"'{PREFIX}<name>.<key>'"
            )
        if name.lower() in seen_names:
            raise ValueError(f"{name[:40]!r} is given twice (names ignore case): remove one")
        seen_names.add(name.lower())
    return {name[len(PREFIX) :]: value for name, value in options.items()}


def _decode_base64(value: Any) -> bytes:
    text = value if isinstance(value, str) else None
    if text is None:
        raise ValueError("text in base64 is expected")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"not base64: {error}") from error


Topic = Annotated[str, Field(max_length=MAX_TOPIC_LENGTH)]
#: A partition number as an object key. Leading zeros are invalid, so keys are unique.
PartitionKey = Annotated[int, BeforeValidator(_parse_partition_key)]
_Partition = Annotated[int, Field(strict=True, ge=0, le=MAX_PARTITION)]
_Topics = Annotated[
    dict[Topic, Annotated[int, Field(strict=True, ge=0, le=_MAX_PARTITIONS)]],
    AfterValidator(_check_partition_count),
]
_Owned = dict[Topic, list[_Partition]]
_Bytes = Annotated[bytes, BeforeValidator(_decode_base64)]
_Int32 = Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)]
_Lag = Annotated[float, Field(strict=True, ge=-MAX_OFFSET, le=MAX_OFFSET)]
_Natural = Annotated[int, Field(strict=True, ge=0, le=MAX_OFFSET)]


class _Offsets(JsonObject):
    beginning: _Natural = 0
    latest: _Natural
    committed: Annotated[
        _Natural | None, BeforeValidator(lambda n: None if n in _NOT_COMMITTED else n)
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
    #: Relative capacity; the limits keep sums and quotients finite.
    capacity: Annotated[float, Field(strict=True, ge=1e-9, le=1e9)] = 1.0
    standby: _Owned = Field({})
    user_data: _Bytes | None = None

    @model_validator(mode="after")
    def _check_claim(self) -> _Member:
        if self.owned_user_data is not None and (self.owned or self.generation is not None):
            raise ValueError("give 'owned_user_data', or 'owned' and 'generation', but not both")
        return self


class GroupChange(JsonObject):
    """Changes to a group before it is assigned again."""

    leave: list[str] = Field([])
    join: dict[str, _Member] = Field({})
    topics: _Topics = Field({})
    #: The JSON values as written by the user.
    _input: dict[str, Any] = PrivateAttr()

    @model_validator(mode="wrap")
    @classmethod
    def _keep_input(cls, data: Any, handler: ModelWrapValidatorHandler[GroupChange]) -> GroupChange:
        change = handler(data)
        change._input = data
        return change


class Request(JsonObject):
    """One line of input: a group, how to assign it, and the steps that change it."""

    assignor: str = "sticky"
    options: Annotated[dict[str, str], AfterValidator(_strip_prefix)] = Field({})
    topics: _Topics
    members: dict[str, _Member]
    lags: dict[str, dict[PartitionKey, _Lag]] = Field({})
    offsets: dict[str, dict[PartitionKey, _Offsets]] | None = None
    offset_reset: str = "latest"
    partition_racks: dict[str, dict[PartitionKey, frozenset[str]]] = Field({})
    standby_replicas: _Natural = 0
    steps: list[GroupChange] = Field([])

    @model_validator(mode="after")
    def _check_offsets_and_topics(self) -> Request:
        if {"lags", "offsets"} <= self.model_fields_set:
            raise ValueError("'lags' and 'offsets' cannot be combined: give one of them")
        topics = dict(self.topics)
        for i, step in enumerate(self.steps):
            topics.update(step.topics)
            try:
                _check_partition_count(topics)
            except ValueError as error:
                raise ValueError(f"topics after steps[{i}]: {error}") from None
        return self

    @cached_property
    def group(self) -> Group:
        """The group before the first step."""
        lags: Mapping[str, Mapping[int, float]] = self.lags
        if self.offsets is not None:
            lags = {
                topic: {
                    p: Offsets(**dict(o)).lag(self.offset_reset) for p, o in by_partition.items()
                }
                for topic, by_partition in self.offsets.items()
            }
        members = _make_members(self.members)
        return Group(members, self.topics, lags, self.partition_racks, self.standby_replicas)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the input, one line each."""
        reset = self.offset_reset
        if self.offsets is None or reset in ("latest", "earliest"):
            return ()
        return (
            f"offset_reset {reset[:40]!r} is treated as 'earliest', like every value but 'latest'",
        )


@dataclass(frozen=True)
class Answer:
    """The assignment of a group, initially or after one step."""

    assignor: Assignor
    group: Group
    assignment: Assignment
    #: Number of partitions that moved away from a valid owner that is still in the group.
    moved_partitions: int
    #: Notes for the user, such as why a preferred assignor was not used.
    notes: tuple[str, ...]
    #: The step as written by the user; None for the initial group.
    step: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values, without the moves and without empty optional keys."""
        assignment = self.assignment
        result: dict[str, Any] = {
            "assignor": self.assignor.name,
            "assignment": assignment.as_dict(),
        }
        if self.step is not None:
            result["step"] = dict(self.step)
        if any(partitions.count for partitions in assignment.standbys.values()):
            result["standbys"] = {
                member: {t: list(ns) for t, ns in partitions.items()}
                for member, partitions in sorted(assignment.standbys.items())
            }
        if assignment.transferring.count:
            result["withheld"] = {t: list(ns) for t, ns in assignment.transferring.items()}
        if self.notes:
            result["notes"] = list(self.notes)
        return result


def parse_request(text: bytes | str) -> Request:
    """Parse one line of input; raise InputError if it does not follow the contract."""
    return validate_model(Request, parse_json(text, "the group"), "the group")


def _make_members(inputs: Mapping[str, _Member]) -> tuple[Member, ...]:
    shared_topics: dict[frozenset[str], frozenset[str]] = {}
    members = []
    for name, member_input in inputs.items():
        fields = dict(member_input)
        topics, claim_data = frozenset(fields.pop("topics")), fields.pop("owned_user_data")
        member = Member(name, shared_topics.setdefault(topics, topics), **fields)
        if claim_data is not None:
            member = replace(add_claim(member, claim_data), user_data=member.user_data)
        members.append(member)
    return tuple(members)


def answer(request: Request, find_assignor: Callable[[str], Assignor] = lookup) -> Answer:
    """Assign the initial group, without its steps."""
    return answer_steps(request.model_copy(update={"steps": []}), find_assignor)[0]


def answer_steps(
    request: Request, find_assignor: Callable[[str], Assignor] = lookup
) -> list[Answer]:
    """Assign the group initially, and again after each step.

    Before each step, members own their assigned partitions and the generation increases by one. A
    cooperative assignor runs one round per step and assigns withheld partitions in the next round.
    """
    group = request.group
    answers: list[Answer] = []
    generation = max((m.generation or 0 for m in group.members), default=0)
    names, options = split_names(request.assignor), tuple(request.options.items())
    for step_number, change in enumerate((None, *request.steps)):
        if change is not None:
            previous_answer = answers[-1]
            on_assignment = previous_answer.assignor.on_assignment
            group = group.after(previous_answer.assignment, generation + step_number, on_assignment)
            group = _apply_change(group, change, f"step {step_number}")
        assignor_by_name = configure_assignors(names, options, find_assignor)
        choice = choose(names, group, assignor_by_name.__getitem__)
        assignment = assign_checked(choice.assignor, group)
        owner = resolve_claims(group).owner
        moved_partitions = int(np.count_nonzero((owner >= 0) & (owner != assignment.owner)))
        notes = (*request.notes, *choice.refusals, *assignment.notes)
        step = None if change is None else change._input
        answers.append(Answer(choice.assignor, group, assignment, moved_partitions, notes, step))
    return answers


def _apply_change(group: Group, change: GroupChange, step_name: str) -> Group:
    members = {m.id: m for m in group.members}
    for member_id in change.leave:
        if members.pop(member_id, None) is None:
            raise OptionError(f"{step_name}: {member_id!r} cannot leave: it is not in the group")
    for member in _make_members(change.join):
        if member.id in members:
            raise OptionError(f"{step_name}: {member.id!r} cannot join: it is already in the group")
        members[member.id] = member
    topics = {**group.topics, **change.topics} if change.topics else group.topics
    return replace(group, members=tuple(members.values()), topics=topics)
