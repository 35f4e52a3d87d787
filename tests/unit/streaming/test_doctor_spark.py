"""Tests of `assignor doctor --spark`, and of the checks of Spark and Delta."""

from __future__ import annotations

import importlib.metadata
import socket

import pytest

from streaming.cli import main
from streaming.doctor import machine
from streaming.observe.masters import find_reachable_address, parse_addresses


def test_an_unknown_url_is_misuse_and_its_secret_is_not_shown(capsys):
    assert main.run(["doctor", "--spark", "ftp://me:hunter22@host"]) == 2
    stderr = capsys.readouterr().err
    assert "the URL of a master or server is expected: spark://host:7077" in stderr
    assert "hunter22" not in stderr
    assert main.run(["doctor", "--spark", "spark://host"]) == 2
    assert capsys.readouterr().err == "assignor: --spark: 'host' is not host:port\n"
    assert main.run(["doctor", "--spark", "yarn", "--checkpoint", "c"]) == 2
    assert main.run(["doctor", "--spark", ""]) == 2


def test_masters_that_answer_and_that_do_not(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main.run(["doctor", "--spark", f"spark://127.0.0.1:1,{address}"]) == 0
        line = f"ok     the master answers: {address} accepts connections\n"
        assert line in capsys.readouterr().out
        assert main.run(["doctor", "--spark", f"sc://{address}/;token=abcdefgh"]) == 0
        line = f"ok     the Spark Connect server answers: {address} accepts"
        assert line in capsys.readouterr().out
    assert main.run(["doctor", "--spark", "spark://127.0.0.1:1"]) == 1
    assert (
        "FAILED the master answers: no answer (127.0.0.1:1: Connection refused): check that it is "
        "running" in capsys.readouterr().out
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
def test_addresses_of_urls(url, addresses):
    assert parse_addresses(url) == addresses


@pytest.mark.parametrize("url", ["SPARK://127.0.0.1:1", "YARN", "local[2]", "mesos://m:5050"])
def test_a_url_without_an_address_is_misuse(url):
    assert main.run(["doctor", "--spark", url]) == 2


def test_a_master_url_with_a_path_is_misuse(capsys):
    """Spark reports `Invalid master URL` for a URL that ends with a slash."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main.run(["doctor", "--spark", f"spark://{address}/"]) == 2
        assert capsys.readouterr().err == f"assignor: --spark: '{address}/' is not host:port\n"


@pytest.mark.parametrize(
    "address",
    ["host", "host:", ":7077", "host:70000", f"{'h' * 80}.x:1", "::1:7077", "host:7077/", "[::1:4"],
)
def test_an_invalid_address_is_a_value_error(address):
    with pytest.raises(ValueError, match="is not host:port"):
        find_reachable_address([address])


@pytest.mark.parametrize(
    ("version", "holds", "details"),
    [
        ("4.0.4", True, "4.0.4"),
        ("4.0.2", True, "assignor-bridge was not tested on Spark 4.0.2"),
        ("3.5.1", False, "assignor-bridge was not tested on Spark 3.5.1"),
        ("4.99.0", True, "assignor-bridge was not tested on Spark 4.99.0"),
    ],
)
def test_an_untested_spark_is_one_line_of_the_doctor(version, holds, details, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    check = machine._check_spark()
    assert (check.holds, check.details.partition(" (tested: ")[0]) == (holds, details)


def test_the_doctor_reports_a_spark_without_delta(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.99.0")
    monkeypatch.setattr(machine.spark_packages, "resolve", lambda *_: True)
    check = machine._check_delta()
    assert check.holds
    assert "in the cache; no Delta is known for Spark 4.99.0: io.delta:" in check.details
