"""Find planted secrets in texts and files, in any encoding."""

from __future__ import annotations

import base64
import contextlib
import gzip
import html
import json
import re
import zlib
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BASE64 = re.compile(rb"[A-Za-z0-9+/]{24,}={0,2}")
#: The begin of zlib data, and the maximum size of a state's envelope before it.
_ZLIB = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
_ENVELOPE = 64


def list_forms(secret: str) -> set[bytes]:
    """Return a secret as plain text and as encoded in URLs, JSON, HTML, and base64."""
    written = {
        secret, quote(secret), quote(secret, safe=""), quote_plus(secret), html.escape(secret),
        html.escape(secret, quote=False), json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    }  # fmt: skip
    return {form.encode() for form in written} | set(_encode_base64(secret.encode()))


def find_secrets(data: bytes, secrets: Mapping[str, str]) -> list[str]:
    """Return the places whose secrets are in the data, or in packed data within it."""
    texts = list(_unpack(data))
    return [
        place
        for place, secret in secrets.items()
        if any(form in text for form in list_forms(secret) for text in texts)
    ]


def _encode_base64(secret: bytes) -> Iterator[bytes]:
    """Yield the base64 letters that depend only on the secret, for each alignment."""
    for padding in range(3):
        encoded = base64.b64encode(b"\0" * padding + secret)
        first, last = -(-padding * 8 // 6), (padding + len(secret)) * 8 // 6
        yield encoded[first:last]


def _unpack(data: bytes) -> Iterator[bytes]:
    """Yield the data, its uncompressed content if it is gzip, and the planner's states in it."""
    yield data
    if data.startswith(b"\x1f\x8b"):
        yield from _unpack(gzip.decompress(data))
    for run in _BASE64.findall(data):
        raw = base64.b64decode(run[: len(run) // 4 * 4])
        for start in _ZLIB.finditer(raw, 0, _ENVELOPE):
            with contextlib.suppress(zlib.error):
                yield zlib.decompressobj().decompress(raw[start.start() :])
