"""States as other versions of this package write them; run, a planner of the next version.

That one is the real worker, whose states have the next number and one more field in their header.
Arguments, which Java gives an interpreter, are ignored.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from checkpoints import state_text

if TYPE_CHECKING:
    from checkpoints.sticky_state import StickyState

PRESENT = state_text.VERSION
FROM_THE_FUTURE = "fromTheFuture"

_encode = state_text.encode


def next_version(state: StickyState) -> str:
    """Return a state as the version after the present one writes it (after `main`)."""
    header, rest = _parts(_encode(state))
    return _wrapped(header | {FROM_THE_FUTURE: [1, 2]}, rest, PRESENT + 1)


def version_1(text: str) -> str:
    """Return a state of version 2 as version 1 wrote it: other columns of cost, other paces."""
    state = state_text.decode(text)
    header, rest = _parts(text)
    claims = rest[: sum(header["claims"])]
    for younger in ("paces", "common", "calm", "hold"):
        del header[younger]
    header["speeds"] = {executor: [0.0, 1] for executor in state.paces}
    costs = np.zeros(len(state.topic))
    columns = (
        (state.topic, "<i4"), (state.partition, "<i4"), (state.position, "<i8"),
        (state.seen, "<i4"), (costs, "<f2"), (costs, "<f2"), (state.bytes, "<f2"),
        (state.density, "<f2"),
    )  # fmt: skip
    cells = b"".join(column.astype(kind).tobytes() for column, kind in columns)
    return _wrapped(header, claims + cells, 1)


def header_of(text: str) -> tuple[int, dict[str, Any]]:
    """Return the version and the header of a state of any version."""
    raw = base64.b64decode(text)
    body = zlib.decompress(raw[8:])
    return raw[3], orjson.loads(body[4 : 4 + int.from_bytes(body[:4], "big")])


def _parts(text: str) -> tuple[dict[str, Any], bytes]:
    body = zlib.decompress(base64.b64decode(text)[8:])
    length = 4 + int.from_bytes(body[:4], "big")
    return orjson.loads(body[4:length]), body[length:]


def _wrapped(fields: dict[str, Any], rest: bytes, version: int) -> str:
    header = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    packed = zlib.compress(len(header).to_bytes(4, "big") + header + rest, 1)
    envelope = state_text._ENVELOPE.pack(state_text.MAGIC, version, zlib.crc32(packed))
    return base64.b64encode(envelope + packed).decode()


def main() -> None:
    """Become a planner of the next version."""
    columns: dict[int, Any] = state_text._COLUMNS
    columns[PRESENT + 1] = columns[PRESENT]
    state_text.VERSION = PRESENT + 1
    state_text.encode = next_version
    from assignor_bridge import worker  # takes what it needs from there by name

    worker.main()


if __name__ == "__main__":
    main()
