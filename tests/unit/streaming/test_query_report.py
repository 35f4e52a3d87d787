"""Test `assignor report` on checkpoints and logs: figures that are easy to verify, valid pages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from checkpoints.state_text import decode, encode
from checkpoints.sticky_state import Common, Pace, StickyState, StoredExecutor
from streaming import make_report
from streaming.cli import main
from streaming.observe.progress_log import read_batches
from streaming.observe.query_progress import parse_progress
from streaming.report.query_facts import gather_facts
from streaming.report.query_sources import collect_sources
from tests.unit.metrics import samples
from tests.unit.streaming.checkpoints import write_checkpoint
from tests.unit.streaming.kept_query import kept_query

RECORDED = Path(samples.__file__).with_name("recorded_progress.jsonl")
#: Partition 0 gets ten times as many records as partition 1, in each of three batches.
HOT = [{"t": {0: 1000 * n, 1: 100 * n}} for n in (1, 2, 3)]
_VOID = {"meta", "br", "rect", "line", "path"}


class _Outline(HTMLParser):
    """Checks that tags are closed in order; collects the words and the external references."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [
            name
            for name, value in attrs
            if name in ("src", "href", "xlink:href") and not str(value).startswith("#")
        ]
        if tag not in _VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "title"} & set(self.open):
            self.words.append(data)


def read_page(path: Path) -> str:
    """Return the words of a page; check that it is well formed and loads nothing."""
    text = path.read_text(encoding="utf-8")
    outline = _Outline()
    outline.feed(text)
    outline.close()
    assert outline.open == []
    assert outline.references == []
    assert not re.search(r"<(script|link|img|iframe)|@import|url\(", text)
    assert "prefers-color-scheme:dark" in text
    assert "@media print" in text
    assert 'name="viewport"' in text
    return " ".join(" ".join(outline.words).split()).replace(" ,", ",")


def write_report(tmp_path: Path, *places: Path | str, **options: str) -> str:
    """Return the words of the page that `assignor report` writes."""
    output = tmp_path / "report.html"
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    call = ["report", *map(str, places), "--output", str(output), *words]
    assert main.run(call) == 0
    return read_page(output)


def state(owners: list[int], executors: list[str], batches: int, cost: float = 0.004) -> str:
    """Return a state in which member `owners[p]` read partition p last; executors have one slot."""
    count = len(owners)
    numbers, over, nothing = np.arange(count), np.zeros(count), np.full(count, np.nan)
    over[0] = np.log(2)
    return encode(
        replace(
            StickyState.empty(), generation=2, batches=batches, topics=("t",),
            readers=tuple(StoredExecutor(e, f"h{e}", 1) for e in executors),
            topic=np.zeros(count, np.int64), partition=numbers, member=np.array(owners),
            position=numbers, seen=numbers, cost=over, last_cost=over, evidence=over * 0 + 4,
            bytes=nothing, density=nothing,
            common=Common(float(np.log(cost)), 5.0 * cost, noise=0.01, noise_batches=8.0),
        )
    )  # fmt: skip


def test_checkpoint_has_the_offsets_read_and_the_gap_of_the_plan(tmp_path):
    words = write_report(tmp_path, write_checkpoint(tmp_path / "c", HOT))
    assert "3,300 offsets of 2 partitions (rows) by batch (columns)" in words
    assert "t-0 3,000 91% 1,000" in words  # total read, its share, maximum per batch
    assert first_screen(words) == (
        "Uneven slots 3.64 times the ideal, predicted on 4 slots (assumed) Action Split "
        "partitions: set assignor=lag-aware-sticky, or Spark's minPartitions saves 1.4 s a batch "
        "Gain None yet the query does not use an assignor"
    )
    assert re.search(r"Created 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC by assignor-bridge \d", words)
    assert len(re.findall("(is|are) unknown", words)) == 4  # lag, load, moves, costs
    assert "Slot load is unknown: also give the address of Spark's UI" in words


def test_notebook_shows_the_page_in_an_iframe(tmp_path):
    report = make_report(str(write_checkpoint(tmp_path / "c", HOT)))
    assert str(report).startswith("Query of ")
    assert report.html.startswith("<!doctype html>")
    frame = report._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert frame.count("<") == 2
    assert "html" not in repr(report)


def test_fixed_cost_is_not_reported_as_a_cost_of_records(tmp_path):
    """A range takes 20 ms in addition to its records; no partition has costlier records."""
    folder = write_checkpoint(tmp_path / "c", HOT)
    kept = folder / "sources" / "0" / "assignments"
    kept.mkdir()
    alike = replace(decode(state([0, 0, 1], ["1", "2"], 7)), cost=np.array([0.1, -0.1, 0.2]))
    common = alike.common._replace(noise=0.2, fixed=0.02, level=float(np.log(2e-5)))
    (kept / "3.v1").write_text(encode(replace(alike, common=common)))
    words = write_report(tmp_path, folder)
    assert "one record of a usual partition 20 µs one range, without its records 20 ms" in words
    assert "Time per record, by partition" not in words


def test_state_in_the_checkpoint_has_the_cost_of_a_record(tmp_path):
    folder = write_checkpoint(tmp_path / "c", HOT)
    kept = folder / "sources" / "0" / "assignments"
    kept.mkdir()
    (kept / "3.v1").write_text(state([0, 0, 1], ["1", "2"], 7))
    words = write_report(tmp_path, folder)
    assert "one record of a usual partition 4 ms one range, without its records 20 ms" in words
    assert "Time per record, by partition usual t-0 4 ms 8 ms" in words
    assert "times the ideal, predicted Action " in words  # on the executors of the state


def test_secrets_in_a_log_written_by_spark_are_not_on_the_page(tmp_path):
    log = tmp_path / "progress.jsonl"
    ours = {"strategy": "lag-aware-sticky", "generation": "1", "tasks": "2", "imbalance": "0.01"}
    why = "no broker at https://ann:hunter2@host/x password=hunter2"
    log.write_text(
        "\n".join(
            samples.text(batch=batch, start={"0": batch}, end={"0": batch + 1}, **ours, **more)
            for batch, more in enumerate(({}, {"movedPartitions": "1", "fallbackReason": why}))
        )
    )
    words = write_report(tmp_path, log)
    assert "no broker at https://" in words
    assert "hunter2" not in (tmp_path / "report.html").read_text()


def test_metrics_log_has_the_lag_and_the_moves(tmp_path):
    log = tmp_path / "progress.jsonl"
    ours = {"strategy": "lag-aware-sticky", "generation": "1", "tasks": "2", "imbalance": "0.01"}
    lines = [
        samples.text(batch=0, start={"0": 0, "1": 0}, end={"0": 40, "1": 9},
                     latest={"0": 90, "1": 9}, executors="3", movedPartitions="0", partitions="2",
                     freshnessSeconds="1.25", freshnessSecondsMax="9",
                     admittedRecords="49", heldBackRecords="50", heldBackBy="records",
                     **ours),
        samples.text(batch=1, start={"0": 40, "1": 9}, end={"0": 50, "1": 9},
                     latest={"0": 90, "1": 19}, executors="2", movedPartitions="5", partitions="1",
                     heldBackBy="spark", **ours),
        samples.text(batch=2, start={"0": 50, "1": 9}, end={"0": 70, "1": 19},
                     latest={"0": 90, "1": 19}, executors="2", movedPartitions="1", partitions="2",
                     freshnessSeconds="0.75", freshnessSecondsMax="2",
                     admittedRecords="30", heldBackRecords="20", heldBackBy="records",
                     **ours),
    ]  # fmt: skip
    idle = samples.text(batch=3, start={"0": 70}, end={"0": 70}, latest={"0": 95})
    log.write_text("\n".join(['{"event": "ended"}', *lines, idle, lines[2][:40]]))
    words = write_report(tmp_path, log)
    assert "When the last batch started, 50 records were unread in 2 of 2 partitions" in words
    assert "80% of them in t-0; limits held back 20 records." in words
    assert "t-0 40 90 70 t-1 10 10 19" in words  # last lag, highest lag, records read
    measured = json.loads(lines[2])
    measured["sources"][0]["logEndOffset"] = {"t": {"0": 70 + 31, "1": 19 + 2}}
    log.write_text("\n".join([*lines[:2], json.dumps(measured)]))
    words_of_measured = write_report(tmp_path, log)
    assert "After the last batch, 33 records were unread in 2 of 2 partitions" in words_of_measured
    assert "t-0 31 90 70 t-1 2 10 19" in words_of_measured
    assert "6 moves of a partition to another executor in 3 batches." in words
    assert "1 5 1.0% executors 3 → 2 2 1 1.0% to balance the load" in words
    # With the last two batches only, nothing of the first one is left.
    assert "to another executor in 2 batches" in write_report(tmp_path, log, batches="2")


def test_only_the_last_batches_of_a_log_are_kept(tmp_path):
    """`report --batches` used to keep the whole log in memory."""
    log = tmp_path / "progress.jsonl"
    lines = [
        samples.text(batch=batch, query_id=query, start={"0": batch}, end={"0": batch + 1})
        for batch in (0, 1, 2, 2, 3)
        for query in ("a", "b")
    ]
    log.write_text("\n".join(lines))
    for last, batches in ((None, [0, 1, 2, 3]), (2, [2, 3]), (9, [0, 1, 2, 3])):
        kept = [(progress.query_id, progress.batch) for progress in read_batches(log, last)]
        assert kept == [(query, batch) for query in ("a", "b") for batch in batches]


def test_report_on_a_recorded_log(tmp_path):
    words = write_report(tmp_path, RECORDED)
    assert "Query orders" in words
    assert "Nothing stands out" in words


def test_page_of_a_thousand_partitions_is_small(tmp_path):
    ends, end = [], dict.fromkeys(range(1000), 0)
    for number in range(60):
        end = {p: at + (p * 7919 + number * 31) % 97 for p, at in end.items()}
        ends.append({"t": end})
    folder = write_checkpoint(tmp_path / "c", ends)
    words = write_report(tmp_path, folder)
    assert "offsets of 1,000 partitions (rows)" in words
    assert "The chart shows the first 40 of 1,000 partitions." in words
    assert (tmp_path / "report.html").stat().st_size < 700_000


def test_labels_distinguish_partitions_of_several_topics(tmp_path):
    ends = [{"payments": {0: 5}, "shipments": {0: 7}}]
    words = write_report(tmp_path, write_checkpoint(tmp_path / "c", ends))
    assert "…ments-0" in words


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param([], 2, "CHECKPOINT|URL|LOG", id="nothing given"),
        pytest.param(["no/such"], 2, "not a streaming checkpoint", id="no such checkpoint"),
        pytest.param(
            ["c", "c"], 2, "a second input of kind 'checkpoint': give one of each", id="two"
        ),
        pytest.param(["other.txt"], 2, "has no progress of a batch with data", id="another file"),
        pytest.param(["c", "log.jsonl"], 2, "has no query 'd9a5a3a1", id="of another query"),
        pytest.param(
            ["c", "log.jsonl", "--query", "a"],
            2,
            "belongs to query 11111111-aaaa, but the checkpoint",
            id="of another query with a name",
        ),
        pytest.param(
            ["two.jsonl"],
            2,
            "has 2 queries: choose one by name or ID with --query",
            id="two queries",
        ),
        pytest.param(["c", "--output", "no/r.html"], 1, "folder does not exist", id="no folder"),
        pytest.param(["c", "--batches", "0"], 2, "--batches", id="no batches"),
        pytest.param(["c", "--once"], 2, "--once cannot be used without --live", id="once"),
        pytest.param(
            ["c", "--live", "-o", "x"], 2, "--output cannot be used with --live", id="a live page"
        ),
        pytest.param(["c", "--json"], 2, "--json cannot be used without --batch", id="JSON"),
        pytest.param(
            ["c", "--batch", "1", "--query", "a"],
            2,
            "--query cannot be used with",
            id="a batch of a query",
        ),
        pytest.param(
            ["c", "log.jsonl", "--batch", "1"],
            2,
            "(metrics log) is not used with --batch or --partition: omit it",
            id="a batch of a log",
        ),
        pytest.param(
            ["http://h:1", "--partition", "t-0"],
            2,
            "(Spark's UI) is not used with --batch or --partition: omit it",
            id="a partition of a UI",
        ),
    ],
)
def test_misuse_is_reported_in_one_line(arguments, code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "c", HOT)
    one = samples.text(start={"0": 0}, end={"0": 1}, name="a")
    two = samples.text(start={"0": 0}, end={"0": 1}, name="b", query_id="other")
    (tmp_path / "other.txt").write_text("hello\n[1]\n7\n")
    (tmp_path / "log.jsonl").write_text(one)
    (tmp_path / "two.jsonl").write_text(f"{one}\n{two}\n")
    assert main.run(["report", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "report.html").exists()


def test_a_query_is_chosen_by_name(tmp_path):
    log = tmp_path / "two.jsonl"
    one = samples.text(start={"0": 0}, end={"0": 1}, name="a")
    two = samples.text(start={"0": 0}, end={"0": 5}, name="b", query_id="other")
    log.write_text(f"{one}\n{two}\n")
    assert "Query b" in write_report(tmp_path, log, query="b")


def first_words(page: str) -> str:
    """Return the words after the title and the word "Problem"."""
    return re.sub(r"^Query (of \S+|\S+) Problem ", "", page)


def first_screen(page: str) -> str:
    """Return the words of the three tiles, which have at most 40 words and three figures."""
    words = first_words(page).partition(" Created ")[0]
    assert len(words.split()) <= 40, words
    assert len(re.findall(r"(?<!executor: )(?<![-\w.])\d[\d.,]*", words)) <= 3, words
    return words


def test_plan_log_shows_the_partition_that_one_slot_reads_alone(tmp_path):
    sizes = [{0: 1000, 1: 100, 2: 100, 3: 100}] * 6
    whole = kept_query(tmp_path / "whole", sizes, options={"assignor.split": "false"})
    words = write_report(tmp_path, whole.checkpoint, whole.plan_log)
    assert first_screen(words) == (
        "Hot key: orders-0 1.54 times the ideal, measured Action Split it over several slots: "
        "remove assignor.split=false, if row order may change saves 350 ms a batch Gain 100 ms a "
        "batch compared with Spark's default, predicted"
    )
    assert "Hot key: orders-0. This partition has 77% of the work" in words
    assert "1.5 times as long as if all 2 slots shared the work" in words
    cut = kept_query(tmp_path / "cut", sizes)
    words = write_report(tmp_path, cut.checkpoint, cut.plan_log)
    assert first_screen(words).startswith("Nothing stands out 1.0")
    assert "Action None Gain" in words
    assert "No cause was found. Other inputs may show causes: metrics log, Spark's UI." in words


def test_plan_log_shows_the_executors_whose_reads_ran_elsewhere(tmp_path):
    query = kept_query(tmp_path, [dict.fromkeys(range(4), 300)] * 6)
    lines = query.plan_log.read_text().splitlines()[:6]
    moved = [line.replace('"executor": "2"', '"executor": "1"') for line in lines]
    query.plan_log.write_text("\n".join(moved))
    words = write_report(tmp_path, query.checkpoint, query.plan_log)
    assert first_screen(words).startswith(
        "Busy cluster: executor 2 50% of reads ran elsewhere Action "
    )
    assert "The busiest slot takes 2.00 times the ideal, measured, or 1.0" in words
    assert "Busy cluster: executor 2. Only " in words


def test_state_shows_the_slow_executor(tmp_path):
    folder = write_checkpoint(tmp_path / "c", HOT)
    kept = folder / "sources" / "0" / "assignments"
    kept.mkdir()
    slow = float(np.log(3))
    paces = {"1": Pace(0.0, 0.0, 800.0), "2": Pace(slow, slow, 800.0)}
    (kept / "3.v1").write_text(encode(replace(decode(state([0, 1], ["1", "2"], 7)), paces=paces)))
    words = write_report(tmp_path, folder)
    assert first_screen(words).startswith("Slow executor: 2 on h2 ")
    assert "It takes 3.0 times as long" in words


def test_metrics_log_shows_that_there_are_too_few_slots(tmp_path, capsys):
    lines = [
        samples.text(
            batch=n, second=n, start={"0": 10 * n, "1": 10 * n},
            end={"0": 10 * n + 10, "1": 10 * n + 10},
            latest={"0": 100 + 20 * n, "1": 50 + 20 * n}, strategy="lag-aware-sticky", slots="4",
        )
        for n in range(1, 10)
    ]  # fmt: skip
    log = tmp_path / "progress.jsonl"
    log.write_text("\n".join(lines))
    words = write_report(tmp_path, log)
    assert first_screen(words).startswith("Too few slots records arrive 2.00 times as fast")
    assert "about 8 slots would keep up" in words
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("Too few slots (records arrive 2.00 times as fast")
    assert printed[2] == "Action: About 8 slots would keep up"


def test_each_source_is_diagnosed_separately(tmp_path):
    """Spark's default on four slots; one partition has almost all records of the second source."""
    events = []
    for n in range(6):
        one = samples.progress(
            batch=n, second=10 * n, start={"0": 0, "1": 0, "2": 0, "3": 0}, slots="4",
            end={"0": 5000, "1": 5000, "2": 5000, "3": 5000}, strategy="spark",
        )  # fmt: skip
        two = samples.progress(
            batch=n, start={"0": 1, "1": 1, "2": 1}, end={"0": 9000, "1": 101, "2": 101},
            topic="u", strategy="spark", slots="4",
        )  # fmt: skip
        events.append(json.dumps({**one, "sources": [*one["sources"], *two["sources"]]}))
    log = tmp_path / "progress.jsonl"
    log.write_text("\n".join(events))
    words = write_report(tmp_path, log)
    assert first_screen(words).startswith("Source 1: Hot key: u-0 ")
    assert "Source 1: Hot key: u-0. This partition has 98%" in words
    assert "assignor=lag-aware-sticky" in words


def test_seconds_of_an_executor_are_divided_among_its_slots_as_planned(tmp_path):
    """Each of two executors has two slots, and each slot read what was planned for it."""
    query = kept_query(tmp_path, [{0: 400, 1: 300, 2: 200, 3: 100}] * 5, slots=2)
    words = write_report(tmp_path, query.checkpoint, query.plan_log)
    assert first_screen(words).startswith("Nothing stands out 1.0")


def write_log(tmp_path: Path, lines: list[str]) -> Path:
    log = tmp_path / "progress.jsonl"
    log.write_text("\n".join(lines))
    return log


def test_one_fallback_in_the_last_batch_is_not_reported_as_a_hot_key(tmp_path):
    ours = {"strategy": "lag-aware-sticky", "imbalance": "0.01", "slots": "10"}
    lines = [
        samples.text(
            batch=n, second=n, start={"0": 90_000 * n, "1": 5000 * n, "2": 5000 * n},
            end={"0": 90_000 * (n + 1), "1": 5000 * (n + 1), "2": 5000 * (n + 1)},
            **(ours if n < 19 else {"strategy": "spark", "slots": "10"}),
        )
        for n in range(20)
    ]  # fmt: skip
    words = write_report(tmp_path, write_log(tmp_path, lines))
    assert first_screen(words).startswith("Nothing stands out 1.01 times the ideal, predicted")


def make_backlog(shrinks: int) -> list[str]:
    """Return eleven batches of 1,000 records, with a lag that shrinks by `shrinks` per batch."""
    return [
        samples.text(
            batch=n, second=n, start={"0": 1000 * n}, end={"0": 1000 * (n + 1)},
            latest={"0": 1000 * n + 10_000 + shrinks * (10 - n)},
        )
        for n in range(11)
    ]  # fmt: skip


def test_topic_names_keep_their_case(tmp_path):
    events = []
    for n in range(6):
        one = samples.progress(
            batch=n, second=n, start={"0": 2 * n}, end={"0": 2 * n + 2}, latest={"0": 9000},
            topic="Orders_EU",
        )["sources"][0]  # fmt: skip
        event = samples.progress(
            batch=n, second=n, start={"0": 500 * n}, end={"0": 500 * n + 500}, latest={"0": 8000},
        )  # fmt: skip
        for key in ("startOffset", "endOffset", "latestOffset"):
            event["sources"][0][key] |= one[key]
        events.append(json.dumps(event))
    words = write_report(tmp_path, write_log(tmp_path, events))
    assert "Starved topic: Orders_EU." in words


def test_metrics_log_of_sparks_default_is_not_reported_as_missing(tmp_path):
    words = write_report(tmp_path, write_log(tmp_path, make_backlog(500)))
    assert "Moves are unknown: no batch in the log was planned by an assignor" in words
    assert "give the metrics log" not in words


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-inf", "many"])
def test_metric_that_is_not_a_finite_number_is_unknown(tmp_path, number):
    line = samples.text(
        start={"0": 0}, end={"0": 9}, strategy="lag-aware-sticky", slots=number,
        movedPartitions=number, imbalance=number, localityHitRate=number,
    )  # fmt: skip
    assert "0 moves of a partition to another executor in 1 batch. " in write_report(
        tmp_path, write_log(tmp_path, [line])
    )


def test_progress_whose_query_name_is_not_text_is_skipped(tmp_path: Path):
    """Sorting it with other names used to raise a TypeError; found by `make fuzz`."""
    log = tmp_path / "progress.jsonl"
    named = RECORDED.read_text(encoding="utf-8").splitlines()[0]
    event = json.loads(named)
    (event.get("progress") or event)["name"] = -1
    log.write_text(f"{json.dumps(event)}\n{named}\n", encoding="utf-8")
    assert [batch.name for batch in read_batches(log, None)] == [
        (json.loads(named).get("progress") or json.loads(named))["name"]
    ]


def test_first_batch_of_a_log_with_late_offsets_has_no_lag_of_millions(tmp_path):
    """Spark does not report the start offsets of a query's first batch; they may be large."""
    ends = {"start": {"0": 5_000_000}, "end": {"0": 5_000_100}}
    first = samples.text(batch=0, **ends, null_keys=("startOffset",))
    (tmp_path / "one.jsonl").write_text(first)
    words = write_report(tmp_path, tmp_path / "one.jsonl")
    assert "t-0" not in words
    next_one = samples.text(batch=1, start={"0": 5_000_100}, end={"0": 5_000_170})
    (tmp_path / "two.jsonl").write_text(f"{first}\n{next_one}\n")
    words = write_report(tmp_path, tmp_path / "two.jsonl")
    assert "t-0 70 70 70" in words
    assert "5,000" not in words


def test_lag_after_a_repeated_batch_is_unknown(tmp_path):
    again = samples.text(batch=3, start={"0": 50}, end={"0": 90}, null_keys=("latestOffset",))
    (tmp_path / "one.jsonl").write_text(again)
    words = write_report(tmp_path, tmp_path / "one.jsonl")
    assert "The lag after the last batch is unknown." in words
    assert "t-0 unknown 40 40" in words


def test_first_batch_without_rows_has_no_data():
    first = samples.progress(batch=0, start={"0": 7}, end={"0": 7}, null_keys=("startOffset",))
    assert not parse_progress(first).has_data
    at_zero = samples.progress(batch=0, start={"0": 0}, end={"0": 7}, null_keys=("startOffset",))
    [source] = parse_progress(at_zero).sources
    assert source.read_offsets == {("t", 0): 7}


@pytest.mark.parametrize("slots", [1, 2])
def test_a_tail_is_no_load_of_the_slot_that_it_was_cut_from(slots: int, tmp_path: Path) -> None:
    """Tails are read alternately by the executors, and no read ran elsewhere than planned."""
    options = {"assignor.tail": "auto"}
    sizes = [dict.fromkeys(range(8), 4000)] * 9
    query = kept_query(tmp_path, sizes, options=options, noise=0.4, slots=slots)
    facts = gather_facts([str(query.checkpoint), str(query.plan_log)])
    batch = collect_sources(facts)["0"].batches[7]
    tasks = query.outcomes[7].tasks
    assert tasks.tail_seconds
    assert set(batch.share_elsewhere.values()) == {0.0}
    assert min(batch.piece_offsets.values()) < 4000, "the tail is a piece of its own"
    worked_s, reports = batch.slot_seconds, query.outcomes[8].batch.reports
    assert len(worked_s) == 2 * slots
    assert sum(worked_s.values()) == pytest.approx(sum(query.took[7].values()))
    for executor, code in zip(reports.executors, range(2), strict=True):
        seconds = sum(s for name, s in worked_s.items() if name.startswith(f"{executor}/"))
        assert seconds == pytest.approx(reports.seconds[reports.executor == code].sum())
    assert "Busy cluster" not in write_report(tmp_path, query.checkpoint, query.plan_log)
