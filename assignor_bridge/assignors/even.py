"""Members with the same subscription: even counts and the fewest moves, in a few array passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.partitions import Catalog, Ids

#: How free partitions meet members with room: one each in turn, or each member's share in a row.
Fill = Literal["deal", "blocks"]


def even(
    catalog: Catalog, owner: NDArray[np.int32], ids: Ids, members: Ids, fill: Fill = "deal"
) -> None:
    """Divide `ids` evenly over `members`, in place, moving as few as possible.

    Counts end as floor(P/N) or one more. A member keeps up to the floor, and the first P mod N of
    those that own more keep one above it; who must give some up gives those of the highest
    partition number. Since at most P mod N members stay above the floor, free partitions always
    suffice to fill the others: nothing has to be taken a second time.

    `owner` has the index of the member whose claim counts for each partition, -1 for none. Free
    partitions are given in the order of `ids`, members looked at in that of `members`.
    """
    give_up(catalog, owner, ids, members)
    give_free(owner, ids, members, fill)


def give_up(catalog: Catalog, owner: NDArray[np.int32], ids: Ids, members: Ids) -> None:
    """First half of `even`: take from each member what is beyond its share."""
    floor, extra = divmod(len(ids), len(members))
    held = _held(owner, ids, members)
    keep = np.minimum(held, floor)
    keep[np.flatnonzero(held > floor)[:extra]] += 1
    above = held > keep
    if not above.any():
        return
    limit = np.full(int(members.max()) + 2, -1, np.int64)  # the last cell stands for nobody
    limit[members[above]] = keep[above]
    theirs = ids[limit[owner[ids]] >= 0]
    topic = catalog.topic_of[theirs]
    number = theirs - catalog.starts[topic]
    theirs = theirs[np.lexsort((topic, number, owner[theirs]))]
    holder = owner[theirs]
    first = np.flatnonzero(np.diff(holder, prepend=-1))
    sizes = np.diff(np.append(first, len(theirs)))
    place = np.arange(len(theirs)) - np.repeat(first, sizes)
    owner[theirs[place >= limit[holder]]] = -1


def give_free(owner: NDArray[np.int32], ids: Ids, members: Ids, fill: Fill = "deal") -> None:
    """Second half of `even`: give what nobody holds to members with room."""
    free = ids[owner[ids] < 0]
    if not len(free):
        return
    floor, extra = divmod(len(ids), len(members))
    held = _held(owner, ids, members)
    room = np.maximum(floor - held, 0)
    extras = extra - int(np.count_nonzero(held > floor))
    if fill == "deal":
        level = np.flatnonzero(held == floor)  # then those that reach the floor, in that order
        filled = np.flatnonzero(room)
        more = np.concatenate((level, filled[np.argsort(room[filled], kind="stable")]))
        places = np.concatenate((_in_turn(room), more[:extras]))
    else:
        more = np.flatnonzero(held <= floor)[:extras]
        places = np.concatenate((np.repeat(np.arange(len(members)), room), more))
    owner[free] = members[places]


def _held(owner: NDArray[np.int32], ids: Ids, members: Ids) -> Ids:
    """Count the partitions of `ids` that each member holds."""
    holder = owner[ids]
    return np.asarray(np.bincount(holder[holder >= 0], minlength=int(members.max()) + 1)[members])


def _in_turn(room: Ids) -> Ids:
    """Return places in the order in which they get one each, in rounds, while they have room."""
    most = int(room.max(initial=0))
    if not most:
        return np.empty(0, np.int64)
    if int(room.min()) == most:
        return np.tile(np.arange(len(room)), most)
    who = np.repeat(np.arange(len(room)), room)
    first = np.cumsum(room) - room
    turn = np.arange(len(who)) - np.repeat(first, room)
    return np.asarray(who[stable_order(turn)])
