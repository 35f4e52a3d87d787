"""The one table of assignors, and the choice among several by preference.

The user's own (entry points, `package.module:Class`) are loaded by `loading`, an edge; it hands
them to the functions here as `extra`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.assignors.protocol import Assignor, Strategy
from assignor_bridge.assignors.range import range_
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assignor_bridge.assignors.group import Group

ASSIGNORS: dict[str, Assignor] = {
    strategy.name: strategy
    for strategy in (
        Strategy("range", range_),
        # helper B: Strategy("lag-aware-sticky", lag_aware_sticky),
    )
}


def lookup(name: str) -> Assignor:
    """The assignor of that name in the table.

    Raises
    ------
    OptionError
        For any other name; the message lists the table.
    """
    found = ASSIGNORS.get(name)
    if found is None:
        raise OptionError(
            f"unknown assignor {name!r}: choose one of {', '.join(sorted(ASSIGNORS))}, "
            "an entry point of group 'assignor_bridge.assignors', or 'package.module:Class'"
        )
    return found


@dataclass(frozen=True)
class Choice:
    """The assignor that will be used, and why the ones before it in the list are not."""

    assignor: Assignor
    #: One line an assignor that was passed over: `'streams' refused: …`.
    refusals: tuple[str, ...] = ()


def names_in(preference: str | Iterable[str]) -> tuple[str, ...]:
    """The names in a comma-separated list, in order of preference."""
    listed = preference.split(",") if isinstance(preference, str) else list(preference)
    names = tuple(name.strip() for name in listed if name.strip())
    if not names:
        raise OptionError(f"no assignor is named in {preference!r}: see `assignor assign --help`")
    return names


def choose(
    preference: str | Iterable[str], group: Group, find: Callable[[str], Assignor] = lookup
) -> Choice:
    """The first assignor in `preference` whose preconditions hold for `group`.

    Parameters
    ----------
    preference
        Names, in order: a comma-separated list as in `partition.assignment.strategy`, or several.
    group
        The group that is to be assigned.
    find
        Gives the assignor of a name; `loading.find` also knows the user's own.

    Raises
    ------
    OptionError
        For an unknown name (any in the list), or when all refuse; the message gives each reason.
    """
    candidates = [find(name) for name in names_in(preference)]
    refusals: list[str] = []
    for assignor in candidates:
        reason = assignor.refusal(group)
        if reason is None:
            return Choice(assignor, tuple(refusals))
        refusals.append(f"{assignor.name!r} refused: {reason}")
    raise OptionError(
        f"no assignor fits the group ({'; '.join(refusals)}): add one without that condition, such as 'sticky'"
    )
