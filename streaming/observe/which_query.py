"""Which query of several is meant: one rule for Spark's UI, the log and the endpoint of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping


def choose_query_id(labels: Mapping[str, str], name: str | None, where: str) -> str:
    """Return the id of a query by its name or id; None where there is one.

    `labels` are the names of the queries by id, the id where there is no name. Raises OptionError
    when the choice is not clear.
    """
    fitting = [query for query, label in labels.items() if name in (None, query, label)]
    if len(fitting) == 1:
        return fitting[0]
    names = list(labels.values())
    listed = sorted(
        label if names.count(label) == 1 else f"{label} ({query})"
        for query, label in labels.items()
    )
    has = f"no query {name!r}" if name and not fitting else f"{len(fitting)} queries"
    alike = f" named {name!r}" if name and fitting else ""
    raise OptionError(
        f"{where} has {has}{alike}: choose one by name or id with --query, of {', '.join(listed)}"
    )
