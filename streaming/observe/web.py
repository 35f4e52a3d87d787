"""Send HTTP GET requests with a timeout, and report each failure in one line."""

from __future__ import annotations

import base64
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from urllib.parse import unquote, urlsplit, urlunsplit

from assignor_bridge.errors import AssignorError, OptionError

_TIMEOUT_S = 10.0
#: Maximum response size; the task list of a very large stage takes a fifth of it.
_MAX_BYTES = 512 * 1024 * 1024
#: Needed because `urlsplit` drops tabs, newlines, and (before Python 3.12) text after a bracket.
_HOST_PORT = re.compile(r"(\[[^\[\]\s]+\]|[^\[\]\s:]+)(:[0-9]*)?")
_PATH = re.compile(r"[!-~]*")


class WebError(AssignorError):
    """An HTTP request failed."""

    #: HTTP status; None if there was no response.
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """A URL given by the user; its credentials go into a header, and never into a message."""

    scheme: str
    host_port: str
    path: str
    authorization: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse `HOST:PORT/PATH` with an optional scheme; raise OptionError if it is invalid."""
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            host, port = parts.hostname or "", parts.port
            host.encode("idna")
            is_valid = (
                text.isprintable()
                and parts.scheme in ("http", "https")
                and _HOST_PORT.fullmatch(parts.netloc.rpartition("@")[2])
                and _PATH.fullmatch(parts.path)
            )
        except ValueError:
            is_valid = False
        if not is_valid:
            without_credentials = text.rpartition("@")[2]
            raise OptionError(
                f"{without_credentials!r} is not an address: http://HOST:PORT is expected, such as "
                "http://localhost:4040"
            )
        authorization = None
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        url_host = f"[{host}]" if ":" in host else host
        host_port = f"{url_host}:{port}" if port else url_host
        return cls(parts.scheme, host_port, parts.path.rstrip("/"), authorization)

    def __str__(self) -> str:
        return urlunsplit((self.scheme, self.host_port, self.path, "", ""))

    def get(self, path: str) -> bytes:
        """Fetch a path below this address; raise WebError on failure or an oversized response."""
        request = urllib.request.Request(f"{self}{path}")  # noqa: S310  (the scheme was checked)
        if self.authorization:
            # Do not send the credentials to another server after a redirect.
            request.add_unredirected_header("Authorization", self.authorization)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
                body = bytes(response.read(_MAX_BYTES + 1))
        except urllib.error.HTTPError as error:
            error.close()
            failure = WebError(f"{self}{path} returned HTTP {error.code} ({error.reason})")
            failure.status = error.code
            raise failure from error
        except (OSError, HTTPException) as error:
            raise WebError(
                f"{self} does not respond ({_describe_failure(error)}): check that it is running "
                "and that the address is correct"
            ) from error
        if len(body) > _MAX_BYTES:
            raise WebError(f"{self}{path} returned more than {_MAX_BYTES:,} bytes")
        return body


def _describe_failure(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return (str(getattr(reason, "strerror", None) or reason) or type(error).__name__).lower()
