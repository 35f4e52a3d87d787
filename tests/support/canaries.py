"""Look for planted secrets, however a text or a file has them written."""

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
#: How zlib begins, and within how many bytes a state's envelope ends.
_ZLIB = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
_ENVELOPE = 64


def list_forms(secret: str) -> set[bytes]:
    """Return a secret as it is, and as addresses, JSON, HTML, Java and base64 write it."""
    written = {
        secret, quote(secret), quote(secret, safe=""), quote_plus(secret), html.escape(secret),
        html.escape(secret, quote=False), json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    }  # fmt: skip
    return {form.encode() for form in written} | set(_encode_base64(secret.encode()))


def find_secrets(data: bytes, secrets: Mapping[str, str]) -> list[str]:
    """Return the places whose secrets are in a text, or in what is packed within it."""
    texts = list(_unpack(data))
    return [
        place
        for place, secret in secrets.items()
        if any(form in text for form in list_forms(secret) for text in texts)
    ]


def _encode_base64(secret: bytes) -> Iterator[bytes]:
    """Whatever stands before it: the letters that are made of nothing but the secret."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + secret)
        first, last = -(-before * 8 // 6), (before + len(secret)) * 8 // 6
        yield encoded[first:last]


def _unpack(data: bytes) -> Iterator[bytes]:
    """Yield a file's bytes, of gzip what is in it, and the states of the planner in it."""
    yield data
    if data.startswith(b"\x1f\x8b"):
        yield from _unpack(gzip.decompress(data))
    for run in _BASE64.findall(data):
        raw = base64.b64decode(run[: len(run) // 4 * 4])
        for start in _ZLIB.finditer(raw, 0, _ENVELOPE):
            with contextlib.suppress(zlib.error):
                yield zlib.decompressobj().decompress(raw[start.start() :])
