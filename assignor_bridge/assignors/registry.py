"""The built-in assignors, and the choice of one from a list; `custom` finds others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.assignors.claims import write_claim, write_generation
from assignor_bridge.assignors.cooperative import (
    assign_constrained_cooperative_sticky,
    assign_cooperative_sticky,
    describe_different_subscriptions,
)
from assignor_bridge.assignors.failover import assign_failover, write_priority
from assignor_bridge.assignors.lag_aware import assign_lag_aware
from assignor_bridge.assignors.protocol import Assignor, RebalanceProtocol, Strategy
from assignor_bridge.assignors.range import assign_range
from assignor_bridge.assignors.roundrobin import assign_roundrobin
from assignor_bridge.assignors.sticky import assign_sticky, assign_uniform
from assignor_bridge.assignors.streams import assign_streams, describe_short_topics
from assignor_bridge.assignors.whole import assign_lag_aware_sticky
from assignor_bridge.errors import OptionError, describe_unknown_name
from assignor_bridge.options import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assignor_bridge.assignors.group import Group

_CUSTOM_FORMS = ("an entry point of group 'assignor_bridge.assignors'", "'package.module:Class'")
#: Protocols of the cooperative assignors, the preferred one first.
_PROTOCOLS: tuple[RebalanceProtocol, ...] = ("COOPERATIVE", "EAGER")

ASSIGNORS: dict[str, Assignor] = {
    strategy.name: strategy
    for strategy in (
        Strategy("range", assign_range),
        Strategy("roundrobin", assign_roundrobin),
        Strategy("sticky", assign_sticky, user_data=write_claim),
        Strategy(
            "cooperative-sticky", assign_cooperative_sticky, _PROTOCOLS, user_data=write_generation
        ),
        Strategy(
            "constrained-cooperative-sticky",
            assign_constrained_cooperative_sticky,
            _PROTOCOLS,
            refusal=describe_different_subscriptions,
            user_data=write_generation,
        ),
        Strategy("uniform", assign_uniform, user_data=write_claim),
        Strategy("lag-aware", assign_lag_aware),
        Strategy("lag-aware-sticky", assign_lag_aware_sticky, user_data=write_claim),
        Strategy("failover", assign_failover, user_data=write_priority),
        Strategy(
            "streams",
            assign_streams,
            refusal=describe_different_subscriptions,
            reservation=describe_short_topics,
            user_data=write_claim,
        ),
    )
}


def lookup(name: str) -> Assignor:
    """Return the built-in assignor of this name; raise OptionError for any other name."""
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    names = sorted(ASSIGNORS)
    if name.lower() == NONE:
        raise OptionError(
            f"{name!r} is not an assignor: alone, it selects Spark's default "
            f"assignment for a stream. Here, choose one of {', '.join(names)}"
        )
    raise OptionError(describe_unknown_name("assignor", name, [*names, *_CUSTOM_FORMS]))


@dataclass(frozen=True)
class Choice:
    """The chosen assignor, and why other assignors in the list were passed over."""

    assignor: Assignor
    #: One line for each assignor that was passed over.
    refusals: tuple[str, ...] = ()


def split_names(preference: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names in a comma-separated text or a list; raise OptionError if it has none."""
    parts = preference.split(",") if isinstance(preference, str) else list(preference)
    names = tuple(name.strip() for name in parts if name.strip())
    if not names:
        raise OptionError(f"{preference!r} names no assignor: name one, such as 'sticky'")
    return names


def choose(
    preference: str | Iterable[str], group: Group, find_assignor: Callable[[str], Assignor] = lookup
) -> Choice:
    """Return the first assignor in `preference` that can assign `group`.

    An assignor with a reservation (`streams` for topics of different sizes) is also passed over,
    but the first such is used if no other accepts the group. `custom.Finder` finds custom ones too.

    Raises OptionError for an unknown name or if all refuse (with reasons), PlanError if one fails.

    >>> from assignor_bridge.assignors import Group, Member
    >>> group = Group((Member("C0", {"a"}), Member("C1", {"a", "b"})), {"a": 1, "b": 1})
    >>> choose("streams,sticky", group).assignor.name
    'sticky'
    """
    refusals: list[tuple[Assignor, str]] = []
    fallback: Assignor | None = None
    for assignor in [find_assignor(name) for name in split_names(preference)]:
        reason = assignor.refusal(group)
        if reason is None:
            reason = assignor.reservation(group)
            if reason is None:
                return Choice(assignor, tuple(line for _, line in refusals))
            fallback = fallback or assignor
        refusals.append((assignor, f"{assignor.name!r} was passed over: {reason}"))
    if fallback:
        return Choice(fallback, tuple(line for a, line in refusals if a is not fallback))
    raise OptionError(
        f"no assignor in the list accepts the group: {'; '.join(line for _, line in refusals)}. "
        "Add an assignor that accepts any group, such as 'sticky', to the list"
    )
