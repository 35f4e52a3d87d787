"""`assignor doctor --spark`: whether a master or server accepts connections."""

from __future__ import annotations

import importlib.metadata
import socket

import pytest

from streaming.cli import main
from streaming.doctor import machine
from streaming.observe.masters import find_reachable_address, parse_addresses


def test_an_unknown_one_is_misuse_and_its_secret_is_not_shown(capsys):
    assert main.run(["doctor", "--spark", "ftp://me:hunter22@host"]) == 2
    told = capsys.readouterr().err
    assert "the URL of a master or server is expected: spark://host:7077" in told
    assert "hunter22" not in told
    assert main.run(["doctor", "--spark", "spark://host"]) == 2
    assert capsys.readouterr().err == "assignor: --spark: 'host' is not host:port\n"
    assert main.run(["doctor", "--spark", "yarn", "--checkpoint", "c"]) == 2
    assert main.run(["doctor", "--spark", ""]) == 2


def test_a_master_that_answers_and_one_that_does_not(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"127.0.0.1:{server.getsockname()[1]}"
        assert main.run(["doctor", "--spark", f"spark://127.0.0.1:1,{here}"]) == 0
        told = f"ok     the master answers: {here} accepts connections\n"
        assert told in capsys.readouterr().out
        assert main.run(["doctor", "--spark", f"sc://{here}/;token=abcdefgh"]) == 0
        assert (
            f"ok     the server of Spark Connect answers: {here} accepts" in capsys.readouterr().out
        )
    assert main.run(["doctor", "--spark", "spark://127.0.0.1:1"]) == 1
    assert (
        "FAILED the master answers: no answer (127.0.0.1:1: Connection refused): is it running?"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("sc://[::1]", ["[::1]:15002"]),
        ("sc://[::1]:4", ["[::1]:4"]),
        ("k8s://api", ["api:443"]),
        ("k8s://https://ann:hunter22@api", ["api:443"]),
        ("k8s://http://api", ["api:80"]),
        ("spark://ann:hunter22@a:1,b:2", ["a:1", "b:2"]),
        ("local[2]", []),
        ("mesos://m:5050", []),
    ],
)
def test_where_a_url_leads(url, addresses):
    assert parse_addresses(url) == addresses


@pytest.mark.parametrize("url", ["SPARK://127.0.0.1:1", "YARN", "local[2]", "mesos://m:5050"])
def test_a_url_without_an_address_is_misuse(url):
    assert main.run(["doctor", "--spark", url]) == 2


def test_a_master_with_a_path_is_not_told_to_answer(capsys):
    """Spark says `Invalid master URL` of one that ends with a slash."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"127.0.0.1:{server.getsockname()[1]}"
        assert main.run(["doctor", "--spark", f"spark://{here}/"]) == 2
        assert capsys.readouterr().err == f"assignor: --spark: '{here}/' is not host:port\n"


@pytest.mark.parametrize(
    "address",
    ["host", "host:", ":7077", "host:70000", f"{'h' * 80}.x:1", "::1:7077", "host:7077/", "[::1:4"],
)
def test_what_is_no_address_is_said_to_be_none(address):
    with pytest.raises(ValueError, match="is not host:port"):
        find_reachable_address([address])


@pytest.mark.parametrize(
    ("version", "holds", "told"),
    [
        ("4.0.4", True, "4.0.4"),
        ("4.0.2", True, "assignor-bridge was not tested on Spark 4.0.2"),
        ("3.5.1", False, "assignor-bridge was not tested on Spark 3.5.1"),
        ("4.99.0", True, "assignor-bridge was not tested on Spark 4.99.0"),
    ],
)
def test_a_spark_outside_the_range_is_one_line_of_the_doctor(version, holds, told, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    check = machine._spark()
    assert (check.holds, check.details.partition(" (tested: ")[0]) == (holds, told)


def test_the_doctor_reports_that_no_delta_was_built_for_a_spark(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.99.0")
    monkeypatch.setattr(machine.spark_packages, "resolve", lambda *_: True)
    check = machine._delta()
    assert check.holds
    assert "in the cache; no Delta is known for Spark 4.99.0: io.delta:" in check.details
