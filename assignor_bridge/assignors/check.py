"""Check the answer of every assignor, built-in or custom, before it is used.

No assignor can lose or duplicate a partition. Each subscribed, existing partition goes to exactly
one member that subscribes to it. A cooperative assignor may instead withhold a partition for such a
member while another member of the group claims it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.partitions import Partitions
from assignor_bridge.errors import AssignorError, PlanError, describe_error, pluralize, to_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.protocol import Assignor

_RULE = (
    "An assignment must give each subscribed partition to exactly one member that subscribes to it."
)


def assign_checked(assignor: Assignor, group: Group) -> Assignment:
    """Run an assignor and check its answer; raise PlanError or the assignor's own AssignorError."""
    try:
        answer = assignor.assign(group)
    except AssignorError:
        raise
    except Exception as error:
        raise PlanError(f"assignor {assignor.name!r} raised {describe_error(error)}") from error
    return check_assignment(assignor.name, group, answer)


def check_assignment(name: str, group: Group, answer: Any) -> Assignment:
    """Check that an answer is valid and complete, and return it as a new `Assignment`.

    The answer is an `Assignment` or a plain mapping: `{member id: {topic: partition numbers}}`.

    Raises PlanError if it is not valid; the message names the assignor and the problem.

    >>> from assignor_bridge.assignors import Group, Member
    >>> group = Group((Member("C0", {"t0"}),), {"t0": 2})
    >>> check_assignment("mine", group, {"C0": {"t0": [0]}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    assignor_bridge.errors.PlanError: assignor 'mine' left 1 of 2 partitions without a member: ...
    """
    check = _AnswerCheck(name, group)
    try:
        build = check.rebuild if isinstance(answer, Assignment) else check.build_from_mappings
        assignment = build(answer)
    except AssignorError:
        raise
    except Exception as error:  # reading a user's object may run any code
        raise PlanError(
            f"assignor {name!r} returned an unreadable answer: {describe_error(error)}. {_RULE}"
        ) from error
    check.check_subscriptions(assignment.owner, "gave", "to")
    is_missing = (assignment.owner < 0) & group.subscribed
    if assignment.withheld is not None:
        check.check_withheld(assignment.owner, assignment.withheld)
        is_missing &= assignment.withheld < 0
    missing_ids, total = np.flatnonzero(is_missing), int(group.subscribed.sum())
    check.fail_if(missing_ids, f"left {len(missing_ids)} of {total} partitions without a member")
    for member, copies in assignment.standbys.items():
        owned_ids = copies.ids[assignment.owner[copies.ids] == check.index[member]]
        owned_text = pluralize(len(owned_ids), "partition")
        check.fail_if(owned_ids, f"made {member!r} the standby of {owned_text} that it owns")
    return assignment


def check_handover(name: str, group: Group, assignment: Assignment) -> None:
    """Check that no partition is given to a member while another one claims it (KIP-429).

    A receiver whose own claim is valid passes (see `resolve_claims`). Raises PlanError with the
    partition and both members.
    """
    claims, owner = resolve_claims(group), assignment.owner
    for partition, claimant in zip(claims.ids.tolist(), claims.claimant.tolist(), strict=True):
        receiver = int(owner[partition])
        if receiver not in (-1, claimant) and claims.owner[partition] != receiver:
            raise PlanError(
                f"assignor {name!r} gave {group.catalog.name(partition)} to "
                f"{group.ids[receiver]!r} while {group.ids[claimant]!r} claims it: "
                "a cooperative assignor must withhold it for one round"
            )


class _AnswerCheck:
    """Checks one answer; each failure is a `PlanError` that names the assignor."""

    def __init__(self, name: str, group: Group) -> None:
        self.name, self.group, self.catalog = name, group, group.catalog

    @cached_property
    def index(self) -> dict[str, int]:
        """Index of each member by id."""
        return {member: i for i, member in enumerate(self.group.ids)}

    def fail(self, problem: str, details: Iterable[str] = ()) -> NoReturn:
        detail_text = ", ".join(details)
        raise PlanError(
            f"assignor {self.name!r} {problem}{': ' + detail_text if detail_text else ''}. {_RULE}"
        )

    def fail_if(self, partition_ids: NDArray[np.integer], problem: str) -> None:
        """Fail if there are such partitions, and name the first five."""
        if len(partition_ids):
            self.fail(problem, (self.catalog.name(int(i)) for i in partition_ids[:5]))

    def rebuild(self, answer: Assignment) -> Assignment:
        """Check each part of `answer`, and return a new Assignment built from these parts."""
        if answer.ids != self.group.ids or answer.catalog != self.catalog:
            self.fail("returned an assignment whose members or topics are not those of the group")
        if not isinstance(answer.standbys, Mapping):
            kind = type(answer.standbys).__name__
            self.fail(f"returned standbys of type {kind}, not a mapping")
        notes, withheld = answer.notes, answer.withheld
        if isinstance(notes, str) or not all(isinstance(note, str) for note in notes):
            self.fail("returned notes that are not a list of strings")
        return Assignment(
            self.group,
            self.check_indices("owner", answer.owner),
            withheld=None if withheld is None else self.check_indices("withheld", withheld),
            standbys={m: self.check_standbys(m, copies) for m, copies in answer.standbys.items()},
            notes=tuple(map(to_one_line, notes)),
        )

    def check_indices(self, part: str, values: Any) -> NDArray[np.int32]:
        """Check an array of member indices, one per partition; -1 means no member."""
        indices, total, member_count = np.asarray(values), self.catalog.total, len(self.group.ids)
        if indices.ndim != 1 or (indices.dtype.kind not in "iu" and len(indices)):
            layout = f"{pluralize(indices.ndim, 'dimension')} of {indices.dtype}"
            self.fail(f"returned {part!r} with {layout}, not one dimension of member indices")
        if len(indices) != total:
            self.fail(f"returned {part!r} of length {len(indices)}, not {total}, one per partition")
        for member in (int(indices.min()), int(indices.max())) if total else ():
            if not -1 <= member < member_count:
                self.fail(f"put member index {member} in {part!r}, not -1 to {member_count - 1}")
        return indices.astype(np.int32, copy=False)

    def check_member(self, member: Any) -> None:
        if member not in self.index:
            self.fail(f"named the member {member!r}, which is not in the group", self.group.ids[:5])

    def check_standbys(self, member: Any, copies: Any) -> Partitions:
        self.check_member(member)
        if not isinstance(copies, Mapping):
            self.fail(f"gave {member!r} standbys of type {type(copies).__name__}, not a mapping")
        ids = self.catalog.ids(copies).astype(np.int64, casting="same_kind", copy=False)
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.catalog.total:
            self.fail(f"gave {member!r} standbys of partitions that do not exist")
        return Partitions(self.catalog, ids)

    def build_from_mappings(self, answer: Any) -> Assignment:
        if not isinstance(answer, Mapping):
            self.fail(f"returned a {type(answer).__name__}, not a mapping of members to topics")
        owner = np.full(self.catalog.total, -1, np.int32)
        for member, owned in answer.items():
            self.check_member(member)
            if not isinstance(owned, Mapping):
                kind = type(owned).__name__
                self.fail(f"gave {member!r} a {kind}, not a mapping of topics to partitions")
            for topic, partitions in owned.items():
                kind = type(partitions).__name__
                if isinstance(partitions, str) or not hasattr(partitions, "__iter__"):
                    self.fail(f"gave {member!r} a {kind} for {topic!r}, not a list of partitions")
                for partition in partitions:
                    self.assign(owner, self.index[member], topic, partition)
        return Assignment(self.group, owner)

    def assign(self, owner: NDArray[np.int32], member: int, topic: Any, partition: Any) -> None:
        name, count = self.group.ids[member], self.catalog.get(topic, 0)
        is_number = isinstance(partition, (int, np.integer)) and not isinstance(partition, bool)
        if not is_number or not 0 <= partition < count:
            type_note = "" if is_number else f" (a {type(partition).__name__})"
            description = f"{topic}-{str(partition)[:40]}{type_note} (existing partitions: {count})"
            self.fail(f"gave {name!r} a partition that does not exist", (description,))
        partition_id = self.catalog.span(topic).start + int(partition)
        if owner[partition_id] >= 0:
            owners = f"{self.group.ids[int(owner[partition_id])]!r} and {name!r}"
            self.fail(f"gave one partition twice, to {owners}", (f"{topic}-{partition}",))
        owner[partition_id] = member

    def check_subscriptions(self, owner: NDArray[np.integer], verb: str, preposition: str) -> None:
        """Check that each member subscribes to the partitions assigned to it or withheld for it."""
        for topics, indices in self.group.subscriptions:
            is_foreign = np.fromiter((t not in topics for t in self.catalog), np.bool_)
            if not is_foreign.any():
                continue
            is_subscriber = np.zeros(len(self.group.ids) + 1, np.bool_)  # the last cell is for -1
            is_subscriber[list(indices)] = True
            foreign_ids = np.flatnonzero(is_subscriber[owner] & is_foreign[self.catalog.topic_of])
            if len(foreign_ids):
                member = self.group.ids[int(owner[foreign_ids[0]])]
                self.fail(
                    f"{verb} {pluralize(len(foreign_ids), 'partition')} {preposition} members that "
                    "do not subscribe to the topic",
                    (f"{self.catalog.name(int(foreign_ids[0]))} {preposition} {member!r}",),
                )

    def check_withheld(self, owner: NDArray[np.integer], withheld: NDArray[np.integer]) -> None:
        """Check that withheld partitions have a subscribed receiver, another claimant, no owner."""
        is_withheld = withheld >= 0
        if not is_withheld.any():
            return
        given_ids = np.flatnonzero(is_withheld & (owner >= 0))
        self.fail_if(given_ids, f"gave and withheld {pluralize(len(given_ids), 'partition')}")
        self.check_subscriptions(withheld, "withheld", "for")
        claims = resolve_claims(self.group)
        has_other_claim = np.zeros(len(owner), np.bool_)
        has_other_claim[claims.ids[withheld[claims.ids] != claims.claimant]] = True
        unclaimed_ids = np.flatnonzero(is_withheld & ~has_other_claim)
        unclaimed_text = pluralize(len(unclaimed_ids), "partition")
        self.fail_if(unclaimed_ids, f"withheld {unclaimed_text} that no other member claims")
