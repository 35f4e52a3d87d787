"""Assignors for real consumer groups: Kafka's classic group protocol, through kafka-python.

- `lags`: the lags of a group, looked up in the background
- `kafka_python`: an assignor as kafka-python expects it; the only module that imports kafka-python
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assignor_bridge.assignors.custom import find
from assignor_bridge.assignors.group import Member
from assignor_bridge.assignors.own import CustomAssignor, configure_without_options
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
        Name of a built-in assignor or an entry point, `package.module:Class`, or your own
        class, instance or function (see docs/writing-an-assignor.md).
    rack
        Rack of this member; its consumer's `client_rack` if None.
    priority, capacity
        Priority of this member, for `failover`, and its capacity relative to other members, for
        `lag-aware-sticky` (2 gets twice the load of 1). Your own assignors may use both.

    Raises
    ------
    OptionError
        If the assignor cannot be loaded or ignores `priority` or `capacity`, if `capacity` is not a
        finite number above 0, or if kafka-python is missing or too old.
    """
    strategy = _find_assignor(name)
    for argument, value, default, assignor_name in (
        ("priority", priority, None, "failover"),
        ("capacity", capacity, 1, "lag-aware-sticky"),
    ):
        is_used = isinstance(strategy, CustomAssignor) or strategy.name == assignor_name
        if value != default and not is_used:
            raise OptionError(
                f"assignor {strategy.name!r} ignores {argument}: remove {argument}={value}, "
                f"or use {assignor_name!r}"
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


def _find_assignor(name: Any) -> Assignor:
    """Return the named assignor, or wrap the user's own object."""
    if isinstance(name, str):
        return configure_without_options(find(name))
    reference = getattr(name, "__qualname__", type(name).__qualname__)  # an instance has none
    return CustomAssignor(reference, name).with_options({})
