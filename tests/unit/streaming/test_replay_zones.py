"""Test the cost across zones in `assignor estimate --racks` and in the report.

Partition 0 has 1,000 records per batch and partition 1 has ten, each of 1,000 bytes, with a batch
every 10 s: 8.7264 GB a day. Leaders are in zone c without executors, followers in a and b.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor, Partition
from streaming.cli import main
from streaming.replay.racks_input import RackMap, read_racks
from tests.unit.metrics import samples
from tests.unit.streaming.checkpoints import write_checkpoint
from tests.unit.streaming.test_query_report import write_report

if TYPE_CHECKING:
    from pathlib import Path

HOT = [{"t": {0: 1000 * n, 1: 10 * n}} for n in (1, 2, 3)]
RACKS = {
    "executors": {"h1": "a", "h2": "b"},
    "partitions": {"t": {"0": ["c", "a", "b"], "1": ["c", "a", "b"]}},
}
NAMES = "spark,lag-aware-sticky"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "c", HOT)


def call(checkpoint: Path, racks: object, *more: str) -> list[str]:
    path = checkpoint.parent / "racks.json"
    path.write_text(racks if isinstance(racks, str) else json.dumps(racks))
    given = ["--checkpoint", str(checkpoint), "--racks", str(path), "--assignors", NAMES]
    return ["estimate", *given, *more]


def bill(checkpoint: Path, racks: object, capsys: pytest.CaptureFixture[str], *more: str) -> dict:
    assert main.run([*call(checkpoint, racks, "--record-bytes", "1000", *more), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["zones"]
    return {**found, "mappings": {m.pop("name"): m for m in found["mappings"]}}


def test_estimate_prints_the_daily_cost_now_and_with_zones(checkpoint, capsys):
    more = ["--record-bytes", "1000", "--price-per-gb", "5"]
    assert main.run(call(checkpoint, RACKS, *more)) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "Cost across zones, at 5 per GB: 43.63 a day with Spark's default, 0.00 a day with "
        "lag-aware-sticky and zones, at 1.0"
    ) in out
    assert "without zones it would cost 0.00 a day" in out  # each zone has a replica
    assert "1,000 bytes per offset on average (as given), before compression; 8.73 GB a day" in out
    assert "│ spark │ 100.0% │ 8.73 │ 43.63 │ 1.98 │" in out
    assert "2 executors with 1 slot, the same in every batch (from --racks)" in out


def test_json_has_every_figure(checkpoint, capsys):
    found = bill(checkpoint, RACKS, capsys)
    assert (found["pricePerGb"], found["bytesPerDay"]) == (0.02, pytest.approx(8.7264e9))
    assert list(found["mappings"]) == ["spark", "lag-aware-sticky", "lag-aware-sticky, zones off"]
    spark = found["mappings"]["spark"]
    assert (spark["crossZoneShare"], spark["costPerDay"]) == (1.0, pytest.approx(0.174528))
    assert found["mappings"]["lag-aware-sticky"]["costPerDay"] == 0


def test_zones_trade_balance_for_cost(checkpoint, capsys):
    """All replicas are in zone a, with one of two equal executors; the imbalance limit is 5%."""
    racks = {"executors": RACKS["executors"], "partitions": {"t": {"0": ["a"], "1": ["a"]}}}
    found = bill(checkpoint, racks, capsys, "--price-per-gb", "2")["mappings"]
    ours, off = found["lag-aware-sticky"], found["lag-aware-sticky, zones off"]
    assert 0.45 < ours["crossZoneShare"] < off["crossZoneShare"] <= 0.51
    assert 1 < off["timesIdeal"] < ours["timesIdeal"] <= 1.05


def test_unknown_racks_cost_nothing_and_are_reported(checkpoint, capsys):
    racks = {"executors": RACKS["executors"], "partitions": {"t": {"1": ["c"]}}}
    assert main.run(call(checkpoint, racks, "--hosts", "h1,h3")) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "racks of 1 of 2 partitions and 1 of 2 executors are unknown" in out
    assert "100 bytes per offset on average (assumed; set it with --record-bytes)" in out


def test_cost_is_unknown_without_racks_of_partitions(checkpoint, capsys):
    for racks in ("h1=a\nh2=b\n", {**RACKS, "partitions": {"t": {"0": [], "1": [""]}}}):
        assert main.run(call(checkpoint, racks)) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "Cost across zones: unknown, because no partition has a known rack" in out
        assert "racks of 2 of 2 partitions are unknown" in out
        assert "GB a day │" not in out  # no table
        found = bill(checkpoint, racks, capsys)
        assert found["bytesPerDay"] == pytest.approx(8.7264e9)
        for mapping in found["mappings"].values():
            assert (mapping["crossZoneShare"], mapping["costPerDay"]) == (None, None)
            assert mapping["timesIdeal"] >= 1


@pytest.mark.parametrize(
    ("racks", "hosts", "unknown"),
    [
        pytest.param({**RACKS, "partitions": {"t": {"0": ["c"]}}}, "h1,h2",
                     "racks of 1 of 2 partitions are unknown", id="a partition"),
        pytest.param(RACKS, "h1,h3", "racks of 1 of 2 executors are unknown", id="an executor"),
    ],
)  # fmt: skip
def test_unknown_racks_make_the_cost_a_lower_bound(racks, hosts, unknown, checkpoint, capsys):
    assert main.run(call(checkpoint, racks, "--hosts", hosts)) == 0
    out = " ".join(capsys.readouterr().out.split())
    answer = out.rpartition("Over ")[2].partition("Cost across zones")[2].partition(" - ")[0]
    assert answer.count("at least ") == 3
    assert unknown in out
    assert main.run(call(checkpoint, RACKS, "--hosts", "h1,h2")) == 0
    assert "Cost across zones, at 0.02 per GB: 0.017 a day" in capsys.readouterr().out


def test_executor_racks_without_replicas_are_reported(checkpoint, capsys):
    racks = {**RACKS, "executors": {"h1": "a", "h2": "B"}}
    assert main.run(call(checkpoint, racks)) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "executors run in B, where no partition has a replica" in out
    assert main.run(call(checkpoint, RACKS)) == 0
    assert "no partition has a replica" not in capsys.readouterr().out


def test_one_batch_has_no_daily_cost(checkpoint, capsys):
    assert main.run(call(checkpoint, RACKS, "--batches", "1")) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Cost across zones: 100.0% of bytes with Spark's default, 0.0% of bytes with" in out
    assert "no daily cost, which needs two batches with different times" in out


def test_zones_are_not_mentioned_without_racks(checkpoint, capsys):
    arguments = ["estimate", "--checkpoint", str(checkpoint), "--assignors", NAMES]
    assert main.run([*arguments, "--json"]) == 0
    assert "zones" not in json.loads(capsys.readouterr().out)
    assert main.run(arguments) == 0
    assert "zones" not in capsys.readouterr().out


def test_consumers_read_from_leaders_if_brokers_do_not_allow_followers():
    tp = Partition("t", 0)
    racks = RackMap({"1": "a", "h2": "b"}, {tp: ("c", "a")}, allows_follower_reads=True)
    assert racks.get_replicas([tp], leaders_only=False).racks == (frozenset("ca"),)
    assert racks.get_replicas([tp], leaders_only=True).racks == (frozenset("c"),)
    leaders = RackMap(racks.executor_racks, racks.replica_racks, allows_follower_reads=False)
    assert leaders.get_replicas([tp], leaders_only=False).racks == (frozenset("c"),)
    placed = racks.add_racks_to([Executor("1", "x"), Executor("9", "h2"), Executor("8", "h")])
    assert [e.rack for e in placed] == ["a", "b", None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h1=a\nh2: b\n\th3 c d\n", {"h1": "a", "h2": "b", "h3": "c d"}),
        ("! no\n # no\n\n  h1 = a \nh1=a\n", {"h1": "a"}),
        ("\\u0068\\:1=a\\ b", {"h:1": "a b"}),
        ("h1=\\ud83d\\ude00", {"h1": "😀"}),
        ("h1=\\ud83d", "line 1 (h1=\\ud83d) has a malformed Unicode escape"),
        ("h1=a\nh2\n", "line 2 (h2) has no rack: write one line HOST=RACK per executor host"),
        ("=a", "line 1 (=a) has no host"),
        ("h1=a\n\\\nh2=b", "line 2 (\\) has no host"),
        ("h1=a # zone", "line 1 (h1=a # zone) has a '#' after the rack"),
        ("h1=a\nh1=b", "line 2 (h1=b) contradicts an earlier one, with rack a"),
        ("[::1]=a", "line 1 ([::1]=a) has a colon in the host: write it as \\:"),
        ("[\\:\\:1]=a", {"[::1]": "a"}),
        ("h1=\\u12", "line 1 (h1=\\u12) has a malformed Unicode escape"),
        ("# h1=a", "names no executor"),
    ],
)
def test_racks_are_read_from_host_lines(text, expected, tmp_path):
    path = tmp_path / "hosts"
    path.write_text(text)
    if isinstance(expected, dict):
        assert read_racks(path).executor_racks == expected
    else:
        with pytest.raises(OptionError) as refused:
            read_racks(path)
        assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("racks", "arguments", "message"),
    [
        pytest.param("{", [], "racks.json is not JSON", id="not JSON"),
        pytest.param({"executor": {}}, [], "unknown key 'executor'; did you", id="unknown key"),
        pytest.param({"partitions": {}}, [], "names no executor", id="no executor"),
        pytest.param(
            {**RACKS, "partitions": {"t": {"x": []}}}, [], "partitions.t.x: a partition number",
            id="no partition",
        ),
        pytest.param(
            {**RACKS, "partitions": {"t": {"0": "a"}}}, [], "a list is expected", id="no list"
        ),
        pytest.param(
            RACKS, ["--hosts", "h7,h8"],
            "no executor has a rack: --racks has h1, h2, but the executors of the replay are 00001 "
            "on h7, 00002 on h8: add their IDs or hosts to the file", id="others",
        ),
        pytest.param(RACKS, ["--racks", "no/such"], "cannot be read: No such", id="not there"),
        pytest.param(RACKS, ["--price-per-gb", "-1"], "at least 0 is expected", id="negative"),
    ],
)  # fmt: skip
def test_misuse_is_reported_in_one_line(racks, arguments, message, checkpoint, capsys):
    assert main.run([*call(checkpoint, racks), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("option", ["--price-per-gb", "--record-bytes", "--bootstrap-server"])
def test_options_that_need_racks_are_refused_without(option, checkpoint, capsys):
    value = "h:9092" if option == "--bootstrap-server" else "1"
    assert main.run(["estimate", "--checkpoint", str(checkpoint), option, value]) == 2
    assert f"{option} needs --racks" in capsys.readouterr().err


def test_report_has_the_cost_across_zones_from_a_metrics_log(tmp_path):
    """Two batches of a run, one second apart, with 5 MB across zones."""
    log = tmp_path / "progress.jsonl"
    lines = [
        samples.text(batch=n, start={"0": 10 * n}, end={"0": 10 * n + 10}, second=n,
                     strategy="lag-aware-sticky", imbalance="0.04", crossZoneShare="0.05",
                     predictedCrossZoneShare="0.03", receivedBytes=str(10**8 * n),
                     crossZoneBytes=str(7_000_000 + 5_000_000 * n))
        for n in range(2)
    ]  # fmt: skip
    log.write_text("\n".join(lines))
    words = write_report(tmp_path, log, **{"price-per-gb": "0.1"})
    # 5 MB/s are 432 GB a day.
    assert "across zones 5.0% of the bytes: 432 GB a day, 43.20 at 0.1 per GB" in words


def test_report_without_zones_has_no_cost_across_zones(tmp_path, checkpoint):
    assert "across zones" not in write_report(tmp_path, checkpoint)
