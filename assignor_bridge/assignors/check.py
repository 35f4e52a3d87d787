"""Checks the answer of every assignor, ours and the user's own, before anybody acts on it.

Losing or doubling a partition must be impossible, not unlikely: each subscribed, existing partition
goes to exactly one member that subscribes to it, or is withheld for one by a cooperative assignor,
while another member that is present still holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from assignor_bridge.assignors.claims import weigh_claims
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
    """Check that an answer is valid and complete, and return a new one of checked parts.

    It is an `Assignment`, whatever kinds of arrays and mappings it is made of, or plain data: a
    mapping of member id to a mapping of topic to partitions.

    Raises
    ------
    PlanError
        When it is not; the message names the assignor and what is wrong.

    >>> from assignor_bridge.assignors import Group, Member
    >>> group = Group((Member("C0", {"t0"}),), {"t0": 2})
    >>> check_assignment("mine", group, {"C0": {"t0": [0]}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    assignor_bridge.errors.PlanError: assignor 'mine' left 1 of 2 partitions without a member: ...
    """
    check = _Check(name, group)
    try:
        checked = check.parts(answer) if isinstance(answer, Assignment) else check.plain(answer)
    except AssignorError:
        raise
    except Exception as error:  # an object of the user's may do anything when it is looked at
        raise PlanError(
            f"assignor {name!r} gave an answer that cannot be read: {words(error)}. {_RULE}"
        ) from error
    check.subscriptions(checked.owner, "gave", "to")
    missing = (checked.owner < 0) & group.subscribed
    if checked.withheld is not None:
        check.withheld(checked.owner, checked.withheld)
        missing &= checked.withheld < 0
    total = int(group.subscribed.sum())
    check.fail_if(np.flatnonzero(missing), "left", f"of {total} partitions without a member")
    for member, copies in checked.standbys.items():
        both = copies.ids[checked.owner[copies.ids] == check.index[member]]
        check.fail_if(both, f"made {member!r} the standby of", "partitions that it owns")
    return checked


def check_handover(name: str, group: Group, assignment: Assignment) -> None:
    """Check that no partition is given to a member while another one still owns it (KIP-429).

    Raises
    ------
    PlanError
        If one is; the message names the partition and both members.
    """
    claims, owner = weigh_claims(group), assignment.owner
    for partition, claimant in zip(claims.ids.tolist(), claims.member.tolist(), strict=True):
        receiver = int(owner[partition])
        if receiver not in (-1, claimant) and claims.owner[partition] != receiver:
            raise PlanError(
                f"assignor {name!r} gave {group.catalog.name(partition)} to "
                f"{group.ids[receiver]!r} while {group.ids[claimant]!r} owns it: "
                "a cooperative assignor must withhold it for one round"
            )


class _Check:
    """The checks of one answer; each failure is a `PlanError` that names the assignor."""

    def __init__(self, name: str, group: Group) -> None:
        self.name, self.group, self.catalog = name, group, group.catalog

    @cached_property
    def index(self) -> dict[str, int]:
        """Index of each member."""
        return {member: i for i, member in enumerate(self.group.ids)}

    def fail(self, problem: str, which: Iterable[str] = ()) -> NoReturn:
        listed = ", ".join(which)
        raise PlanError(
            f"assignor {self.name!r} {problem}{': ' + listed if listed else ''}. {_RULE}"
        )

    def fail_if(self, wrong: NDArray[np.integer], verb: str, what: str) -> None:
        """Name the first of the partitions of which something is wrong, and how many there are."""
        if len(wrong):
            names = (self.catalog.name(int(i)) for i in wrong[:5])
            self.fail(f"{verb} {len(wrong)} {what}", names)

    def parts(self, answer: Assignment) -> Assignment:
        """Take an assignment apart and put it together again from what has the right shape."""
        if answer.ids != self.group.ids or answer.catalog != self.catalog:
            self.fail("answered for other members or topics than it was asked about")
        if not isinstance(answer.standbys, Mapping):
            kind = type(answer.standbys).__name__
            self.fail(f"answered standbys as a {kind}, not a mapping")
        notes, withheld = answer.notes, answer.withheld
        if isinstance(notes, str) or not all(isinstance(note, str) for note in notes):
            self.fail("answered notes that are not a list of lines")
        return Assignment(
            self.group,
            self.members("owner", answer.owner),
            withheld=None if withheld is None else self.members("withheld", withheld),
            standbys={m: self.standbys(m, copies) for m, copies in answer.standbys.items()},
            notes=tuple(map(one_line, notes)),
        )

    def members(self, part: str, given: Any) -> NDArray[np.int32]:
        """Check an array of member indices, one a partition, -1 for nobody."""
        array, total, members = np.asarray(given), self.catalog.total, len(self.group.ids)
        if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
            kind = f"{array.ndim} dimensions of {array.dtype}"
            self.fail(f"answered {part!r} as {kind}, not one of member numbers")
        if len(array) != total:
            self.fail(f"answered {len(array)} of {total} partitions in {part!r}")
        for member in (int(array.min()), int(array.max())) if total else ():
            if not -1 <= member < members:
                self.fail(f"named member {member} in {part!r}, of the {members} of the group")
        return array.astype(np.int32, copy=False)

    def known(self, member: Any) -> None:
        if member not in self.index:
            self.fail(f"named the member {member!r}, who is not in the group", self.group.ids[:5])

    def standbys(self, member: Any, copies: Any) -> Partitions:
        self.known(member)
        if not isinstance(copies, Mapping):
            self.fail(f"gave {member!r} standbys as a {type(copies).__name__}, not by topic")
        ids = self.catalog.ids(copies).astype(np.int64, casting="same_kind", copy=False)
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.catalog.total:
            self.fail(f"gave {member!r} standbys of partitions that do not exist")
        return Partitions(self.catalog, ids)

    def plain(self, answer: Any) -> Assignment:
        if not isinstance(answer, Mapping):
            self.fail(f"answered a {type(answer).__name__}, not members with their partitions")
        owner = np.full(self.catalog.total, -1, np.int32)
        for member, owned in answer.items():
            self.known(member)
            if not isinstance(owned, Mapping):
                kind = type(owned).__name__
                self.fail(f"gave {member!r} a {kind}, not topics with partitions")
            for topic, partitions in owned.items():
                kind = type(partitions).__name__
                if isinstance(partitions, str) or not hasattr(partitions, "__iter__"):
                    self.fail(f"gave {member!r} a {kind} of {topic!r}, not a list of partitions")
                for partition in partitions:
                    self.give(owner, self.index[member], topic, partition)
        return Assignment(self.group, owner)

    def give(self, owner: NDArray[np.int32], member: int, topic: Any, partition: Any) -> None:
        name, count = self.group.ids[member], self.catalog.get(topic, 0)
        is_number = isinstance(partition, (int, np.integer)) and not isinstance(partition, bool)
        if not is_number or not 0 <= partition < count:
            kind = "" if is_number else f" (a {type(partition).__name__})"
            shown = f"{topic}-{str(partition)[:40]}{kind} ({count} partitions exist)"
            self.fail(f"gave {name!r} a partition that does not exist", (shown,))
        place = self.catalog.span(topic).start + int(partition)
        if owner[place] >= 0:
            both = f"{self.group.ids[int(owner[place])]!r} and {name!r}"
            self.fail(f"gave one partition twice, to {both}", (f"{topic}-{partition}",))
        owner[place] = member

    def subscriptions(self, owner: NDArray[np.integer], verb: str, to: str) -> None:
        """Check that members subscribe to what they were given, or what is withheld for them."""
        for topics, indices in self.group.subscriptions:
            foreign = np.fromiter((t not in topics for t in self.catalog), np.bool_)
            if not foreign.any():
                continue
            ours = np.zeros(len(self.group.ids) + 1, np.bool_)  # the last cell stands for nobody
            ours[list(indices)] = True
            wrong = np.flatnonzero(ours[owner] & foreign[self.catalog.topic_of])
            if len(wrong):
                member = self.group.ids[int(owner[wrong[0]])]
                self.fail(
                    f"{verb} {len(wrong)} partitions {to} members that do not subscribe to them",
                    (f"{self.catalog.name(int(wrong[0]))} {to} {member!r}",),
                )

    def withheld(self, owner: NDArray[np.integer], withheld: NDArray[np.integer]) -> None:
        """Check that what is withheld is given to nobody, and that somebody else still holds it."""
        waiting = withheld >= 0
        if not waiting.any():
            return
        self.fail_if(np.flatnonzero(waiting & (owner >= 0)), "gave and withheld", "partitions")
        self.subscriptions(withheld, "withheld", "for")
        claims = weigh_claims(self.group)
        held = np.zeros(len(owner), np.bool_)
        held[claims.ids[withheld[claims.ids] != claims.member]] = True
        lost = np.flatnonzero(waiting & ~held)
        self.fail_if(lost, "withheld", "partitions that no other member holds")
