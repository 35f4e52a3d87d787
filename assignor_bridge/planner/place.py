"""Placement with splitting: who reads what, so that no slot takes much longer than the ideal.

The yardstick is McNaughton's wrap-around rule: work that can be cut anywhere fits into `m` slots in
exactly `total / m`. Promises, in order:

1. No slot gets more than `(1 + allowance)` of its fair share (rounding to whole offsets apart).
2. Ranges stay with the slot that read them last. Only a slot beyond the allowance gives work
   away: the tail of one range if that is enough (its own consumer goes on with the head, and the
   reader of the tail holds what comes next), else of several, largest first. Inside the allowance
   nothing moves, so noise is not chased; what is given away is never less than a grain of a slot's
   time, so that a cold consumer is worth it.
3. Few pieces: what has to find a place is not cut where it fits whole (largest first, to the slot
   with most room); otherwise it is shared by as few slots as have the room, on one executor if
   possible.

Ties go to the lower slot and the earlier range. Not looked at: racks, and what the future brings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.anywhere import Anywhere
from assignor_bridge.planner.at_home import AtHome
from assignor_bridge.planner.room import ROUNDING, Shares

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints
    from assignor_bridge.planner.pieces import Cuts

#: Share of the allowance that placement uses up; the rest is for rounding to whole offsets.
_USED_ALLOWANCE = 0.9
#: Least share of a slot's time that a cut gives away or leaves, while the allowance permits.
_GRAIN = 0.02
#: The same for a batch where nothing was read before, and every piece is a cold read anyway.
_FRESH_GRAIN = 0.001


def place(
    weights: Floats, owner: Ints, capacity: Floats, slot_executor: Ints, allowance: float
) -> tuple[Ints, Cuts]:
    """Give each range, whole or cut, to slots.

    Parameters
    ----------
    weights
        Predicted work of each range, more than 0.
    owner
        Slot that read the range last, -1 for none.
    capacity
        Fair share of each slot: its part of the total work, by speed.
    slot_executor
        Executor of each slot: rises.
    allowance
        How far beyond the fair share a slot may go, as a share of it.

    Returns
    -------
    tuple
        The slot of each range that stays whole (-1 for the others), and the cuts.
    """
    owned = owner >= 0
    fresh = not owned.any()  # nothing to keep: then the ideal itself
    used = 0.0 if fresh else allowance * _USED_ALLOWANCE
    full = capacity * (1 + used)
    grain = _FRESH_GRAIN if fresh else min(_GRAIN, used / 2)
    load = np.asarray(np.bincount(owner[owned], weights[owned], len(capacity)), np.float64)
    over = np.flatnonzero(load > full * (1 + ROUNDING))
    lent, amounts, load[over] = _lend(
        weights, owner, over, load[over], capacity[over] * (1 + used / 2), grain * capacity[over]
    )
    lender = owner[lent]
    cut = amounts < weights[lent]
    home, kept = np.full(len(owner), -1), np.zeros(len(owner))
    home[lent[cut]], kept[lent[cut]] = lender[cut], (weights[lent] - amounts)[cut]
    whole = owner.copy()
    whole[lent] = -1
    spare, shares = full - load, Shares()
    left = AtHome(slot_executor, spare, capacity, shares).place(
        lent, amounts, slot_executor[lender]
    )
    rows = np.append(np.flatnonzero(~owned), lent[left])
    sizes = np.append(weights[~owned], amounts[left])
    largest = np.lexsort((rows, -sizes))
    Anywhere(rows[largest], sizes[largest], spare, capacity, grain, fresh, shares).place()
    return whole, shares.settle(whole, home, kept)


def _lend(  # noqa: PLR0917
    weights: Floats, owner: Ints, over: Ints, load: Floats, target: Floats, grain: Floats
) -> tuple[Ints, Floats, Floats]:
    """Choose what the overloaded slots `over` give away.

    Returns
    -------
    tuple
        Rows, how much of each (all: no head stays), and the load that remains of each slot.
    """
    is_over = np.zeros(int(owner.max(initial=0)) + 2, np.bool_)
    is_over[over] = True
    rows = np.flatnonzero(is_over[owner])
    rows = rows[np.lexsort((-weights[rows], owner[rows]))]
    size, slot = weights[rows], np.searchsorted(over, owner[rows])
    excess = load - target
    enough = np.bincount(slot[size >= (excess + grain)[slot]], minlength=len(over))
    first = np.searchsorted(slot, np.arange(len(over) + 1))
    # One range is enough for most: the smallest that is, so that least work changes hands in the
    # next batch.
    one = np.flatnonzero(enough)
    at = first[one] + enough[one] - 1
    amount = np.maximum(excess[one], np.minimum(grain[one], size[at] - grain[one]))
    left = load.copy()
    left[one] -= amount
    given: list[int] = []
    amounts: list[float] = []
    names, sizes, ends = rows.tolist(), size.tolist(), first.tolist()
    for i in np.flatnonzero(enough == 0).tolist():
        remains, goal, least = float(load[i]), float(excess[i]), float(grain[i])
        for row, part in _give_away(
            names[ends[i] : ends[i + 1]], sizes[ends[i] : ends[i + 1]], goal, least
        ):
            given.append(row)
            amounts.append(part)
            remains -= part
        left[i] = remains
    return (
        np.append(rows[at], np.array(given, np.int64)),
        np.append(amount, np.array(amounts, np.float64)),
        left,
    )


def _give_away(
    rows: list[int], sizes: list[float], excess: float, grain: float
) -> list[tuple[int, float]]:
    """Choose what makes up for the excess of a slot: rows, largest first, and how much of each."""
    given = []
    for row, size in zip(rows, sizes, strict=True):
        if excess <= 0:
            break
        amount = size if size < 2 * grain else min(size - grain, max(excess, grain))
        given.append((row, amount))
        excess -= amount
    return given
