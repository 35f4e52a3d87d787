"""Test custom assignors; requires pytest and hypothesis (the extra `testing`).

- `conformance`: pytest cases for the promises of an assignor, which your class inherits
- `random_groups`: consumer groups, as hypothesis strategies and from a seeded generator
- `hash_seeds`: comparison of answers between processes with different hash seeds
- `rebalance`, `elect` (from `assignors.testing`): simulated rebalances and strategy elections
"""

from assignor_bridge.assignors.testing import Round, elect, rebalance
from assignor_bridge.errors import OptionError

try:
    from assignor_bridge.testing.conformance import AssignorConformance
    from assignor_bridge.testing.random_groups import groups
except ModuleNotFoundError as error:
    if error.name not in ("hypothesis", "pytest"):
        raise
    raise OptionError(
        f"assignor_bridge.testing needs {error.name!r}, which is not installed: "
        "pip install pytest hypothesis"
    ) from error

__all__ = ["AssignorConformance", "Round", "elect", "groups", "rebalance"]
