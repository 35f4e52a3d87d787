"""The one table of assignors, and the choice among several by preference.

The user's own (entry points, `package.module:Class`) are found by `loading`, an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.assignors.claims import write_claim, write_generation
from assignor_bridge.assignors.cooperative import (
    constrained_cooperative_sticky,
    cooperative_sticky,
    describe_different_subscriptions,
)
from assignor_bridge.assignors.failover import failover, write_priority
from assignor_bridge.assignors.lag_aware import lag_aware
from assignor_bridge.assignors.protocol import Assignor, RebalanceProtocol, Strategy
from assignor_bridge.assignors.range import range_
from assignor_bridge.assignors.roundrobin import roundrobin
from assignor_bridge.assignors.sticky import sticky, uniform
from assignor_bridge.assignors.streams import describe_short_topics, streams
from assignor_bridge.assignors.whole import lag_aware_sticky
from assignor_bridge.errors import OptionError, describe_unknown_name
from assignor_bridge.options import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assignor_bridge.assignors.group import Group

_OWN = ("an entry point of group 'assignor_bridge.assignors'", "'package.module:Class'")
_IN_TWO_ROUNDS: tuple[RebalanceProtocol, ...] = ("COOPERATIVE", "EAGER")

ASSIGNORS: dict[str, Assignor] = {
    strategy.name: strategy
    for strategy in (
        Strategy("range", range_),
        Strategy("roundrobin", roundrobin),
        Strategy("sticky", sticky, user_data=write_claim),
        Strategy(
            "cooperative-sticky",
            cooperative_sticky,
            _IN_TWO_ROUNDS,
            user_data=write_generation,
        ),
        Strategy(
            "constrained-cooperative-sticky",
            constrained_cooperative_sticky,
            _IN_TWO_ROUNDS,
            refusal=describe_different_subscriptions,
            user_data=write_generation,
        ),
        Strategy("uniform", uniform, user_data=write_claim),
        Strategy("lag-aware", lag_aware),
        Strategy("lag-aware-sticky", lag_aware_sticky, user_data=write_claim),
        Strategy("failover", failover, user_data=write_priority),
        Strategy(
            "streams",
            streams,
            refusal=describe_different_subscriptions,
            reservation=describe_short_topics,
            user_data=write_claim,
        ),
    )
}


def lookup(name: str) -> Assignor:
    """Return the assignor of that name in the table.

    Raises
    ------
    OptionError
        For any other name; the message lists the table.
    """
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    names = ", ".join(sorted(ASSIGNORS))
    if name.lower() == NONE:
        raise OptionError(
            f"{name!r} is not an assignor: alone, it leaves a stream to Spark's own "
            f"mapping. Here, choose one of {names}"
        )
    raise OptionError(describe_unknown_name("assignor", name, [*sorted(ASSIGNORS), *_OWN]))


@dataclass(frozen=True)
class Choice:
    """The assignor that will be used, and why the ones before it in the list are not."""

    assignor: Assignor
    #: One line for each assignor of the list that was passed over.
    refusals: tuple[str, ...] = ()


def split_names(preference: str | Iterable[str]) -> tuple[str, ...]:
    """Split a comma-separated list into names, in order of preference."""
    listed = preference.split(",") if isinstance(preference, str) else list(preference)
    names = tuple(name.strip() for name in listed if name.strip())
    if not names:
        raise OptionError(f"no assignor is named in {preference!r}: name one, such as 'sticky'")
    return names


def choose(
    preference: str | Iterable[str], group: Group, find: Callable[[str], Assignor] = lookup
) -> Choice:
    """Choose the first assignor in `preference` whose preconditions hold for `group`.

    A reservation (`streams` on topics of different sizes) passes an assignor over like a refusal,
    but when nobody else is left the first with no more than a reservation is used. `loading.Finder`
    also finds the user's own.

    Raises
    ------
    OptionError
        For an unknown name (any in the list), or when all refuse; the message gives each reason.

    >>> from assignor_bridge.assignors import Group, Member
    >>> group = Group((Member("C0", {"a"}), Member("C1", {"a", "b"})), {"a": 1, "b": 1})
    >>> choose("streams,sticky", group).assignor.name
    'sticky'
    """
    passed_over: list[tuple[Assignor, str]] = []
    reluctant: Assignor | None = None
    for assignor in [find(name) for name in split_names(preference)]:
        reason = assignor.refusal(group)
        if reason is None:
            reason = assignor.reservation(group)
            if reason is None:
                return Choice(assignor, tuple(line for _, line in passed_over))
            reluctant = reluctant or assignor
        passed_over.append((assignor, f"{assignor.name!r} was passed over: {reason}"))
    if reluctant:
        return Choice(reluctant, tuple(line for a, line in passed_over if a is not reluctant))
    raise OptionError(
        f"no assignor fits the group: {'; '.join(line for _, line in passed_over)}. "
        "Add one without such a condition, such as 'sticky', to the list"
    )
