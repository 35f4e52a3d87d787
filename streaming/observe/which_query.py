"""Select one of several queries; used for Spark's UI, the metrics log, and the metrics endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping


def choose_query_id(labels: Mapping[str, str], name: str | None, location: str) -> str:
    """Return the ID of the query with the name or ID `name`, or of the only query if None.

    `labels` has the name of each query by ID, or the ID if it has no name. Raises OptionError
    unless exactly one query matches.
    """
    matching_ids = [query for query, label in labels.items() if name in (None, query, label)]
    if len(matching_ids) == 1:
        return matching_ids[0]
    names = list(labels.values())
    choices = sorted(
        label if names.count(label) == 1 else f"{label} ({query})"
        for query, label in labels.items()
    )
    problem = f"no query {name!r}" if name and not matching_ids else f"{len(matching_ids)} queries"
    name_note = f" named {name!r}" if name and matching_ids else ""
    raise OptionError(
        f"{location} has {problem}{name_note}: choose one by name or ID with --query: "
        f"{', '.join(choices)}"
    )
