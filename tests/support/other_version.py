"""Encode states of the next version of this package; as a program, run a planner of that version.

The planner is the real worker, but its states have the next version number and one more header
field. The interpreter's arguments from Java are ignored.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import orjson

from checkpoints import state_text

if TYPE_CHECKING:
    from checkpoints.sticky_state import StickyState

PRESENT = state_text.VERSION
FROM_THE_FUTURE = "fromTheFuture"

_encode = state_text.encode


def encode_next_version(state: StickyState) -> str:
    """Return a state in the format of the next version."""
    header, columns = _split(_encode(state))
    return _wrap(header | {FROM_THE_FUTURE: [1, 2]}, columns, PRESENT + 1)


def decode_header(text: str) -> tuple[int, dict[str, Any]]:
    """Return the version and the header of a state of any version."""
    raw = base64.b64decode(text)
    body = zlib.decompress(raw[8:])
    return raw[3], orjson.loads(body[4 : 4 + int.from_bytes(body[:4], "big")])


def _split(text: str) -> tuple[dict[str, Any], bytes]:
    body = zlib.decompress(base64.b64decode(text)[8:])
    length = 4 + int.from_bytes(body[:4], "big")
    return orjson.loads(body[4:length]), body[length:]


def _wrap(fields: dict[str, Any], columns: bytes, version: int) -> str:
    header = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    packed = zlib.compress(len(header).to_bytes(4, "big") + header + columns, 1)
    envelope = state_text._ENVELOPE.pack(
        state_text.MAGIC, version, state_text.compute_checksum(packed, version)
    )
    return base64.b64encode(envelope + packed).decode()


def main() -> None:
    state_text.VERSION = PRESENT + 1
    state_text.encode = encode_next_version
    from assignor_bridge import worker  # it imports the two names above

    worker.main()


if __name__ == "__main__":
    main()
