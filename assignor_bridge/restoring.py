"""Whether a stored state can be used, as the Java layer asks before the first plan of a stream.

`{"restore": text, "topics": [...]}` is answered `{"ok": true}` or `{"ok": false, "why": "…"}`;
Java then tries an older file. A state is refused for what it is, never with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkpoints.sticky_state import StateError, decode

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN = 3


def restore(text: Any, topics: Any) -> dict[str, Any]:
    """Say whether this state fits a stream of these topics, and if not, why."""
    if not isinstance(text, str):
        return {"ok": False, "why": "the state is no text"}
    if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
        return {"ok": False, "why": "the topics read now are not a list of names"}
    try:
        known = decode(text).topics
    except StateError as error:
        return {"ok": False, "why": str(error)}
    if known and topics and not set(known) & set(topics):
        return {
            "ok": False,
            "why": f"the state is of other topics ({_listed(known)}) than those read now "
            f"({_listed(sorted(topics))})",
        }
    return {"ok": True}


def _listed(names: Iterable[str]) -> str:
    all_names = list(names)
    return ", ".join(all_names[:_SHOWN]) + (", …" if len(all_names) > _SHOWN else "")
