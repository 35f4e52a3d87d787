"""Asks other processes by HTTP: one GET with a deadline, and each failure as one line."""

from __future__ import annotations

import base64
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from urllib.parse import unquote, urlsplit, urlunsplit

from assignor_bridge.errors import AssignorError, OptionError

_LIMIT_S = 10.0
#: The tasks of a very large stage are a fifth of it; a foreign server must not fill the memory.
_MOST_BYTES = 512 * 1024 * 1024
#: `urlsplit` drops tabs and newlines, and, before Python 3.12, what stands behind the bracket.
_PLACE = re.compile(r"(\[[^\[\]\s]+\]|[^\[\]\s:]+)(:[0-9]*)?")
_PATH = re.compile(r"[!-~]*")


class WebError(AssignorError):
    """An address does not answer, or not as expected."""

    #: Status of the answer, None without one.
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """An address that a user gave; user and password go into a header, never into a message."""

    scheme: str
    #: Host and port.
    place: str
    path: str
    authorization: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `http://HOST:PORT/PATH`, also without the scheme; raises OptionError for others."""
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            host, port = parts.hostname or "", parts.port
            host.encode("idna")
            has_shape = (
                text.isprintable()
                and parts.scheme in ("http", "https")
                and _PLACE.fullmatch(parts.netloc.rpartition("@")[2])
                and _PATH.fullmatch(parts.path)
            )
        except ValueError:
            has_shape = False
        if not has_shape:
            shown = text.rpartition("@")[2]
            raise OptionError(
                f"{shown!r} is not an address: http://HOST:PORT is expected, such as "
                "http://localhost:4040"
            )
        secret = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            secret = f"Basic {base64.b64encode(pair.encode()).decode()}"
        name = f"[{host}]" if ":" in host else host
        place = f"{name}:{port}" if port else name
        return cls(parts.scheme, place, parts.path.rstrip("/"), secret)

    def __str__(self) -> str:
        return urlunsplit((self.scheme, self.place, self.path, "", ""))

    def get(self, path: str) -> bytes:
        """Fetch a path below; raises WebError without an answer, or for one that is not 200."""
        request = urllib.request.Request(f"{self}{path}")  # noqa: S310  (the scheme was checked)
        if self.authorization:
            # Not for whoever this address redirects to.
            request.add_unredirected_header("Authorization", self.authorization)
        try:
            with urllib.request.urlopen(request, timeout=_LIMIT_S) as answer:  # noqa: S310
                body = bytes(answer.read(_MOST_BYTES + 1))
        except urllib.error.HTTPError as error:
            error.close()
            refused = WebError(f"{self} answers {error.code} ({error.reason}) to {path!r}")
            refused.status = error.code
            raise refused from error
        except (OSError, HTTPException) as error:
            raise WebError(
                f"{self} does not answer ({_reason(error)}): is it running, is the address right?"
            ) from error
        if len(body) > _MOST_BYTES:
            raise WebError(f"{self} answers with more than {_MOST_BYTES:,} bytes to {path!r}")
        return body


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return (str(getattr(reason, "strerror", None) or reason) or type(error).__name__).lower()
