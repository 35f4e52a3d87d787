"""Decides which executor slot reads which offsets in a micro-batch. Pure: data in, data out.

- `batch`: the snapshot as arrays; `owners`: who read what last; `weights`: predicted seconds
- `place` and `whole`: the flagship, with and without splitting; `groups`: every other assignor
- `pack`: tasks; `check`: the last gate; `plan`: where the steps meet; `describe`: why
"""

from assignor_bridge.planner.plan import Outcome, plan, plan_batch

__all__ = ["Outcome", "plan", "plan_batch"]
