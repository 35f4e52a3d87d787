"""Select one of several queries; used for Spark's UI, the metrics log, and the metrics endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping


def choose_query_id(label_by_id: Mapping[str, str], query: str | None, location: str) -> str:
    """Return the ID of the query with the name or ID `query`, or of the only query if None.

    A query's label is its name, or its ID. Raises OptionError unless exactly one query matches.
    """
    matching_ids = [id_ for id_, label in label_by_id.items() if query in (None, id_, label)]
    if len(matching_ids) == 1:
        return matching_ids[0]
    labels = list(label_by_id.values())
    choices = sorted(
        label if labels.count(label) == 1 else f"{label} ({id_})"
        for id_, label in label_by_id.items()
    )
    is_unknown = query and not matching_ids
    problem = f"no query {query!r}" if is_unknown else f"{len(matching_ids)} queries"
    name_note, key = (f" named {query!r}", "ID") if query and matching_ids else ("", "name or ID")
    raise OptionError(
        f"{location} has {problem}{name_note}: choose one by {key} with --query: "
        f"{', '.join(choices)}"
    )
