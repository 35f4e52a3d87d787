"""Say in one line why Ivy could not bring a jar: its own account takes sixty.

Ivy alone and Spark's `spark.jars.packages` print the same text, so one reader serves both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_MISSING = re.compile(r"^\s*::\s+([^\s#]+)#([^\s;]+);([^\s:!]+)(?:: not found|!)", re.MULTILINE)
_TRIED = re.compile(r"^\s+((?:https?|file):\S+)$", re.MULTILINE)
_UNKNOWN_HOST = re.compile(r"^\s*Host \S+ not found\. url=(\S+)", re.MULTILINE)
_NO_ACCESS = re.compile(r"Server access error at url (\S+) \((.*)\)")
_REFUSED = re.compile(r"((?:SERVER|CLIENT) ERROR: .*) url=(\S+)")
_BROKEN = re.compile(r"\[FAILED\s*\] .*: (.*?) \(\d+ms\)")


@dataclass(frozen=True)
class Failure:
    """Why a resolution failed.

    Attributes
    ----------
    missing
        Coordinates that did not come, as `group:artifact:version`.
    repositories
        Hosts that were asked, in order.
    troubles
        By host, what it answered other than "not there"; downloads that broke off are under "".
    """

    missing: tuple[str, ...]
    repositories: tuple[str, ...]
    troubles: Mapping[str, str]

    def __str__(self) -> str:
        """Name what is missing, where it was looked for, and what each place said."""
        what = ", ".join(self.missing) or "a package"
        places = dict.fromkeys(self.repositories, "not there") | dict(self.troubles)
        answers = [f"{host}: {said}" if host else said for host, said in places.items()]
        return f"{what} could not be fetched ({'; '.join(answers) or 'no repository was asked'})"


def failure(output: str) -> Failure:
    """Read what Ivy printed.

    >>> text = '''
    ...   :: org.foo#bar;1.0: not found
    ...   http://one.example/org/foo/bar/1.0/bar-1.0.pom
    ...   http://two.example/org/foo/bar/1.0/bar-1.0.pom
    ... Server access error at url http://two.example/bar-1.0.pom (java.net.ConnectException: no)
    ... '''
    >>> str(failure(text))[:60]
    'org.foo:bar:1.0 could not be fetched (one.example: not there'
    >>> failure(text).troubles
    {'two.example': 'java.net.ConnectException: no'}
    """
    troubles = {_host(url): "host not found" for url in _UNKNOWN_HOST.findall(output)}
    troubles |= {_host(url): reason for url, reason in _NO_ACCESS.findall(output)}
    troubles |= {_host(url): reason for reason, url in _REFUSED.findall(output)}
    if broken := _BROKEN.search(output):
        troubles[""] = f"a download broke off: {broken[1]}"
    hosts = [_host(url) for url in _TRIED.findall(output) if not url.startswith("file:")]
    return Failure(
        tuple(dict.fromkeys(":".join(match) for match in _MISSING.findall(output))),
        tuple(dict.fromkeys(hosts)),
        troubles,
    )


def _host(url: str) -> str:
    """Host of an address, without the login that it may hold."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or url
