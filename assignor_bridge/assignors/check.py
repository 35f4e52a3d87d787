"""Checks the answer of every assignor, ours and the user's own, before anybody acts on it.

Losing or doubling a partition must be impossible, not unlikely: each subscribed, existing partition
goes to exactly one member that subscribes to it, or is withheld for one by a cooperative assignor,
while another member that is present still holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.partitions import Partitions
from assignor_bridge.errors import AssignorError, PlanError, one_line, words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

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
        raise PlanError(f"assignor {assignor.name!r} raised {words(error)}") from error
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

    Returns
    -------
    Assignment
        A new one of checked parts, whatever kinds of arrays and mappings the answer was made of.
    """
    try:
        if isinstance(answer, Assignment):
            checked = _checked_parts(name, group, answer)
        else:
            checked = _from_plain(name, group, answer)
    except AssignorError:
        raise
    except Exception as error:  # an object of the user's may do anything when it is looked at
        raise PlanError(
            f"assignor {name!r} gave an answer that cannot be read: {words(error)}. {_RULE}"
        ) from error
    _check_subscriptions(name, group, checked.owner, "gave")
    left = (checked.owner < 0) & group.wanted
    if checked.withheld is not None:
        _check_withheld(name, group, checked.owner, checked.withheld)
        left &= checked.withheld < 0
    if left.any():
        missing = np.flatnonzero(left)
        _fail(
            name,
            f"left {len(missing)} of {int(group.wanted.sum())} partitions without a member",
            _named(group, missing),
        )
    _check_standbys(name, group, checked)
    return checked


def _checked_parts(name: str, group: Group, answer: Assignment) -> Assignment:
    """Take an assignment apart and put it together again from what has the right shape."""
    if answer.ids != group.ids or answer.catalog != group.catalog:
        _fail(name, "answered for other members or topics than it was asked about", ())
    withheld = answer.withheld
    if not isinstance(answer.standbys, Mapping):
        _fail(name, f"answered standbys as a {type(answer.standbys).__name__}, not a mapping", ())
    notes = answer.notes
    if isinstance(notes, str) or not all(isinstance(note, str) for note in notes):
        _fail(name, "answered notes that are not a list of lines", ())
    return Assignment(
        group,
        _members(name, group, "owner", answer.owner),
        withheld=None if withheld is None else _members(name, group, "withheld", withheld),
        standbys=_standby_sets(name, group, answer.standbys),
        notes=tuple(map(one_line, notes)),
    )


def _members(name: str, group: Group, what: str, given: Any) -> NDArray[np.int32]:
    """Check an array of member indices, one a partition, -1 for nobody."""
    array, total = np.asarray(given), group.catalog.total
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        kind = f"{array.ndim} dimensions of {array.dtype}"
        _fail(name, f"answered {what!r} as {kind}, not one of member numbers", ())
    if len(array) != total:
        _fail(name, f"answered {len(array)} of {total} partitions in {what!r}", ())
    if total and not -1 <= int(array.min()) <= int(array.max()) < len(group.ids):
        worst = int(array.min()) if int(array.min()) < -1 else int(array.max())
        _fail(name, f"named member {worst} in {what!r}, of the {len(group.ids)} of the group", ())
    return array.astype(np.int32, copy=False)


def _standby_sets(
    name: str, group: Group, given: Mapping[str, Mapping[str, Iterable[int]]]
) -> dict[str, Partitions]:
    members, total = set(group.ids), group.catalog.total
    sets = {}
    for member, copies in given.items():
        if member not in members:
            _fail(name, f"named the member {member!r}, who is not in the group", group.ids[:5])
        if not isinstance(copies, Mapping):
            _fail(name, f"gave {member!r} standbys as a {type(copies).__name__}, not by topic", ())
        ids = group.catalog.ids(copies).astype(np.int64, casting="same_kind", copy=False)
        if len(ids) and not 0 <= ids.min() <= ids.max() < total:
            _fail(name, f"gave {member!r} standbys of partitions that do not exist", ())
        sets[member] = Partitions(group.catalog, ids)
    return sets


def _check_standbys(name: str, group: Group, checked: Assignment) -> None:
    index = {member: i for i, member in enumerate(group.ids)}
    for member, copies in checked.standbys.items():
        both = copies.ids[checked.owner[copies.ids] == index[member]]
        if len(both):
            _fail(
                name,
                f"made {member!r} the standby of {len(both)} partitions that it owns",
                _named(group, both),
            )


def _check_subscriptions(name: str, group: Group, owner: NDArray[np.integer], verb: str) -> None:
    for topics, indices in group.subscriptions:
        allowed = np.fromiter((t in topics for t in group.catalog), np.bool_, len(group.catalog))
        if allowed.all():
            continue
        mine = np.zeros(len(group.ids) + 1, np.bool_)  # the last cell stands for nobody
        mine[list(indices)] = True
        wrong = np.flatnonzero(mine[owner] & ~allowed[group.catalog.topic_of])
        if len(wrong):
            one = int(wrong[0])
            to = "to" if verb == "gave" else "for"
            _fail(
                name,
                f"{verb} {len(wrong)} partitions {to} members that do not subscribe to them",
                (f"{group.catalog.name(one)} {to} {group.ids[int(owner[one])]!r}",),
            )


def _check_withheld(
    name: str, group: Group, owner: NDArray[np.integer], withheld: NDArray[np.integer]
) -> None:
    """Check that what is withheld is given to nobody, and that somebody else still holds it."""
    kept_back = withheld >= 0
    if not kept_back.any():
        return
    both = np.flatnonzero(kept_back & (owner >= 0))
    if len(both):
        _fail(name, f"gave and withheld {len(both)} partitions", _named(group, both))
    _check_subscriptions(name, group, withheld, "withheld")
    held = claims(group)
    held_by_another = np.zeros(len(owner), np.bool_)
    held_by_another[held.ids[withheld[held.ids] != held.member]] = True
    nobody = np.flatnonzero(kept_back & ~held_by_another)
    if len(nobody):
        _fail(
            name,
            f"withheld {len(nobody)} partitions that no other member holds",
            _named(group, nobody),
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
            if isinstance(partitions, str) or not hasattr(partitions, "__iter__"):
                kind = type(partitions).__name__
                _fail(name, f"gave {member!r} a {kind} of {topic!r}, not a list of partitions", ())
            for partition in partitions:
                _place(name, group, owner, index[member], topic, partition)
    return Assignment(group, owner)


def _place(  # noqa: PLR0917
    name: str, group: Group, owner: Any, member: int, topic: Any, partition: Any
) -> None:
    count = group.catalog.get(topic, 0)
    number = isinstance(partition, (int, np.integer)) and not isinstance(partition, bool)
    if not number or not 0 <= partition < count:
        shown = (
            f"{partition}" if number else f"{str(partition)[:40]} (a {type(partition).__name__})"
        )
        _fail(
            name,
            f"gave {group.ids[member]!r} a partition that does not exist",
            (f"{topic}-{shown} ({count} partitions exist)",),
        )
    place = int(group.catalog.starts[group.catalog.index[topic]]) + int(partition)
    if owner[place] >= 0:
        both = f"{group.ids[int(owner[place])]!r} and {group.ids[member]!r}"
        _fail(name, f"gave one partition twice, to {both}", (f"{topic}-{partition}",))
    owner[place] = member


def _named(group: Group, ids: NDArray[np.integer]) -> Iterable[str]:
    return (group.catalog.name(int(i)) for i in ids[:5])


def _fail(name: str, what: str, which: Iterable[str]) -> NoReturn:
    listed = ", ".join(which)
    raise PlanError(f"assignor {name!r} {what}{': ' + listed if listed else ''}. {_RULE}")
