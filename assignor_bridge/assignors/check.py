"""Checks the answer of every assignor, ours and the user's own, before anybody acts on it.

Losing or doubling a partition must be impossible, not unlikely: each subscribed, existing partition
goes to exactly one member that subscribes to it, or is named as withheld by a cooperative one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from assignor_bridge.assignors.group import Assignment
from assignor_bridge.errors import AssignorError, PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.protocol import Assignor

_RULE = (
    "An assignment must give each subscribed partition to exactly one member that subscribes to it."
)


def assign_checked(assignor: Assignor, group: Group) -> Assignment:
    """Ask an assignor and check its answer.

    Raises
    ------
    PlanError
        When it raises, or answers something that is not valid and complete.
    """
    try:
        answer = assignor.assign(group)
    except AssignorError:
        raise
    except Exception as error:
        raise PlanError(
            f"assignor {assignor.name!r} raised {type(error).__name__}: {error}"
        ) from error
    return check_assignment(assignor.name, group, answer)


def check_assignment(name: str, group: Group, answer: Any) -> Assignment:
    """Check that an answer is valid and complete; raise a `PlanError` that says what is wrong.

    Parameters
    ----------
    name
        Who answered, for the message.
    group
        What was asked.
    answer
        An `Assignment`, or plain data: a mapping of member id to a mapping of topic to partitions.
    """
    if isinstance(answer, Assignment):
        checked = answer
        if checked.ids != group.ids or checked.catalog != group.catalog:
            _fail(name, "answered for other members or topics than it was asked about", ())
        if len(checked.owner) != group.catalog.total:
            _fail(name, f"answered {len(checked.owner)} of {group.catalog.total} partitions", ())
        if len(checked.owner) and int(checked.owner.max()) >= len(group.ids):
            _fail(name, f"named a member beyond the {len(group.ids)} of the group", ())
    else:
        checked = _from_plain(name, group, answer)
    _check_subscriptions(name, group, checked)
    left = (checked.owner < 0) & group.wanted
    if checked.withheld is not None:
        left &= checked.withheld < 0
    if left.any():
        missing = np.flatnonzero(left)
        _fail(
            name,
            f"left {len(missing)} of {int(group.wanted.sum())} partitions without a member",
            (group.catalog.name(int(i)) for i in missing[:5]),
        )
    _check_standbys(name, group, checked)
    return checked


def _check_standbys(name: str, group: Group, checked: Assignment) -> None:
    index = {member: i for i, member in enumerate(group.ids)}
    for member, copies in checked.standbys.items():
        if member not in index:
            _fail(name, f"named the member {member!r}, who is not in the group", group.ids[:5])
        ids = copies.ids_in(group.catalog)
        both = ids[checked.owner[ids] == index[member]]
        if len(both):
            _fail(
                name,
                f"made {member!r} the standby of {len(both)} partitions that it owns",
                (group.catalog.name(int(i)) for i in both[:5]),
            )


def _check_subscriptions(name: str, group: Group, checked: Assignment) -> None:
    for topics, indices in group.subscriptions:
        allowed = np.fromiter((t in topics for t in group.catalog), np.bool_, len(group.catalog))
        if allowed.all():
            continue
        mine = np.zeros(len(group.ids) + 1, np.bool_)  # the last cell stands for nobody
        mine[list(indices)] = True
        wrong = np.flatnonzero(mine[checked.owner] & ~allowed[group.catalog.topic_of])
        if len(wrong):
            one = int(wrong[0])
            _fail(
                name,
                f"gave {len(wrong)} partitions to members that do not subscribe to them",
                (f"{group.catalog.name(one)} to {group.ids[int(checked.owner[one])]!r}",),
            )


def _from_plain(name: str, group: Group, answer: Any) -> Assignment:
    if not isinstance(answer, Mapping):
        _fail(name, f"answered a {type(answer).__name__}, not members with their partitions", ())
    owner = np.full(group.catalog.total, -1, np.int32)
    index = {member: i for i, member in enumerate(group.ids)}
    for member, owned in answer.items():
        if member not in index:
            _fail(name, f"named the member {member!r}, who is not in the group", group.ids[:5])
        if not isinstance(owned, Mapping):
            _fail(name, f"gave {member!r} a {type(owned).__name__}, not topics with partitions", ())
        for topic, partitions in owned.items():
            for partition in partitions:
                _place(name, group, owner, index[member], topic, partition)
    return Assignment(group, owner)


def _place(  # noqa: PLR0917
    name: str, group: Group, owner: Any, member: int, topic: Any, partition: Any
) -> None:
    count = group.catalog.get(topic, 0)
    if not isinstance(partition, (int, np.integer)) or not 0 <= partition < count:
        _fail(
            name,
            f"gave {group.ids[member]!r} a partition that does not exist",
            (f"{topic}-{partition} ({count} partitions exist)",),
        )
    place = int(group.catalog.starts[group.catalog.index[topic]]) + int(partition)
    if owner[place] >= 0:
        both = f"{group.ids[int(owner[place])]!r} and {group.ids[member]!r}"
        _fail(name, f"gave one partition twice, to {both}", (f"{topic}-{partition}",))
    owner[place] = member


def _fail(name: str, what: str, which: Iterable[str]) -> NoReturn:
    listed = ", ".join(which)
    raise PlanError(f"assignor {name!r} {what}{': ' + listed if listed else ''}. {_RULE}")
