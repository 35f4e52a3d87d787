"""Ivy's sixty lines become one."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from assignor_bridge import ivy
from assignor_bridge.ivy import JarError, RepositoryTroubleError, make_resolution_error

NOT_THERE = """
    ==== central: tried

      https://one.example/org/foo/bar/1.0/bar-1.0.pom

      -- artifact org.foo#bar;1.0!bar.jar:

      https://one.example/org/foo/bar/1.0/bar-1.0.jar

    ==== mirror: tried

      https://user:secret@two.example:8443/org/foo/bar/1.0/bar-1.0.pom

        ::::::::::::::::::::::::::::::::::::::::::::::
        ::          UNRESOLVED DEPENDENCIES         ::
        :: org.foo#bar;1.0: not found
"""
CASES = [
    pytest.param("", {}, id="not there"),
    pytest.param(
        "    Host two.example not found. url=https://two.example:8443/a.jar",
        {"two.example:8443": "host not found"},
        id="unknown host",
    ),
    pytest.param(
        "    Server access error at url https://one.example/a.pom (java.net.ConnectException: no)",
        {"one.example": "java.net.ConnectException: no"},
        id="no connection",
    ),
    pytest.param(
        "    Server access error at url https://one.example/a.pom (java.net.ConnectException: "
        "Connection timed out)",
        {"one.example": "java.net.ConnectException: Connection timed out"},
        id="no answer",
    ),
    pytest.param(
        "    SERVER ERROR: Service Unavailable url=https://one.example/a.pom",
        {"one.example": "SERVER ERROR: Service Unavailable"},
        id="status 503",
    ),
    pytest.param(
        "    [FAILED     ] org.foo#bar;1.0!bar.jar: Downloaded file size differs (31ms)",
        {"": "a download failed: Downloaded file size differs"},
        id="cut off",
    ),
]


@pytest.mark.parametrize(("more", "troubles"), CASES)
def test_the_error_has_the_missing_module_the_repositories_and_their_answers(
    more: str, troubles: dict[str, str]
) -> None:
    line = str(make_resolution_error(NOT_THERE + more, "org.foo:bar:1.0", "Ask."))
    places = {"one.example": "not there", "two.example:8443": "not there"} | troubles
    answers = "; ".join(f"{host}: {answer}".removeprefix(": ") for host, answer in places.items())
    assert line.startswith(f"org.foo:bar:1.0 could not be fetched ({answers}). Check that the")
    assert "secret" not in line
    assert "\n" not in line


@pytest.mark.parametrize(("more", "troubles"), CASES)
def test_only_temporary_failures_are_repository_trouble(
    more: str, troubles: dict[str, str]
) -> None:
    """Without a network `assignor doctor` once made three attempts for each of two packages."""
    error = make_resolution_error(NOT_THERE + more, "org.foo:top:1.0", "Ask.")
    passes = [t for t in troubles.values() if "host not found" not in t and "timed out" not in t]
    assert type(error) is (RepositoryTroubleError if passes else JarError)
    assert "(needed for org.foo:top:1.0)" in str(error)
    assert str(error).endswith("Ask.")


def test_an_unexplained_failure_shows_ivys_last_lines() -> None:
    error = make_resolution_error("a\nError: no JVM could be created\n", "x:y:1", "Ask.")
    assert str(error) == "x:y:1 could not be fetched: a | Error: no JVM could be created"


@pytest.mark.parametrize(
    ("errors", "attempts", "pauses"),
    [
        pytest.param([], 1, [], id="a success"),
        pytest.param([RepositoryTroubleError("503")], 2, [1], id="trouble once"),
        pytest.param([RepositoryTroubleError("503")] * 9, 3, [1, 2], id="trouble each time"),
        pytest.param([JarError("no such version")] * 9, 1, [], id="another error"),
    ],
)
def test_only_repository_trouble_is_retried(
    errors: list[JarError], attempts: int, pauses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)

    def fetch_once() -> None:
        calls.append(1)
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]

    with pytest.raises(JarError) if len(errors) >= attempts else nullcontext():
        ivy.retry(fetch_once)
    assert (len(calls), slept) == (attempts, pauses)
