"""Assignors for real consumer groups: Kafka's classic group protocol, through kafka-python.

- `members`: what a member sends with its subscription, and what a leader reads from it
- `lags`: the lags of a group, looked up on a thread of their own
- `kafka_python`: an assignor in the shape that kafka-python expects; the one module that imports it
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from assignor_bridge.assignors.group import Member
from assignor_bridge.assignors.loading import find
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.consumer_groups.kafka_python import GroupAssignor

__all__ = ["assignor"]


def assignor(
    name: Any, *, rack: str | None = None, priority: int | None = None, capacity: float = 1.0
) -> GroupAssignor:
    """Return an assignor for `partition_assignment_strategy` of one kafka-python consumer.

    Parameters
    ----------
    name
        A name of the table, an entry point, `package.module:Class`, or your own class, instance or
        function (see docs/writing-an-assignor.md).
    rack
        Rack of this member; its consumer's `client_rack` if None.
    priority
        Priority of this member, for `failover` and your own assignors.
    capacity
        Share of the load that this member should carry relative to others, for `lag-aware-sticky`
        and your own assignors.

    Raises
    ------
    OptionError
        If there is no such assignor, if it ignores `priority` or `capacity`, or if kafka-python is
        missing or too old.
    """
    strategy = _find(name)
    if (
        priority is not None
        and not isinstance(strategy, CustomAssignor)
        and strategy.name != "failover"
    ):
        raise OptionError(
            f"assignor {strategy.name!r} ignores priorities: remove priority={priority}, "
            "or use 'failover'"
        )
    if (
        capacity != 1
        and not isinstance(strategy, CustomAssignor)
        and strategy.name != "lag-aware-sticky"
    ):
        raise OptionError(
            f"assignor {strategy.name!r} ignores capacities: remove capacity={capacity}, "
            "or use 'lag-aware-sticky'"
        )
    try:
        from assignor_bridge.consumer_groups.kafka_python import GroupAssignor
    except ImportError as error:
        raise OptionError(
            f"consumer groups need kafka-python 3.0 or newer ({error}): "
            "install 'assignor-bridge[kafka-python]'"
        ) from error
    member = Member("this member", frozenset(), rack=rack, priority=priority, capacity=capacity)
    return GroupAssignor(strategy, member)


def _find(name: Any) -> Assignor:
    """Return the named assignor, or wrap the user's own object."""
    if isinstance(name, str):
        strategy = find(name)
    else:
        written = name.__qualname__ if inspect.isroutine(name) or inspect.isclass(name) else None
        strategy = CustomAssignor(written or type(name).__qualname__, name)
    return strategy.with_options({}) if isinstance(strategy, CustomAssignor) else strategy
