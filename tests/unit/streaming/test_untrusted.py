"""Untrusted input (names, pages, checkpoints, jobs) is escaped, limited, and checked."""

from __future__ import annotations

import http.client
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.errors import AssignorError
from checkpoints import folders
from checkpoints.folders import CheckpointError, LocalFolder
from checkpoints.offset_log import read_checkpoint_folder
from streaming.audit.audited_files import DataFiles
from streaming.cli import main, output
from streaming.kafka import embedded_setup
from streaming.lag.lag_records import Row
from streaming.lag.lag_table import format_table
from streaming.lag.positions import Position
from streaming.metrics import outlets
from streaming.observe import web
from streaming.observe.check_result import Check
from streaming.observe.scrape import parse_query_metrics
from streaming.observe.spark_ui import SparkUi
from streaming.observe.web import Address, WebError
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.job_errors import ConfigError
from streaming.report import page, svg
from tests.support.trials import trials
from tests.unit.checkpoints.test_offset_log import a_checkpoint
from tests.unit.lag.checkpoint_files import write_query
from tests.unit.metrics import samples
from tests.unit.streaming.checkpoints import write_checkpoint
from tests.unit.streaming.served import APP, RECORDED, serve
from tests.unit.streaming.test_pipeline_config import GOOD, changed
from tests.unit.streaming.test_query_report import read_page
from tests.unit.streaming.test_top import exposition

ROOT = Path(__file__).parents[3]
#: Rich's markup (a closing tag without an opening one is an error there), an escape that clears
#: the screen, one that sets the title, and a line break.
HOSTILE = "[/red]\x1b[2J\x1b]0;title\x07\u202et\nassignor: all is well"
SHOWN = "[/red]\\x1b[2J\\x1b]0;title\\x07\\u202et"
HTML = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def test_names_from_elsewhere_cannot_write_to_the_terminal_of_top(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    ui = json.loads(json.dumps(RECORDED).replace("assignor-bridge tests", "[/x]\\u001b[2Jjob"))
    executors = f"/api/v1/applications/{APP}/allexecutors"
    listed = json.dumps(ui[executors]).replace('"id": "1"', '"id": "[/e]\\u001b[2J1"')
    metrics = exposition("orders").replace('topic="t"', f'topic="{_label(HOSTILE)}"')
    metrics = metrics.replace('strategy="lag-aware-sticky"', f'strategy="{_label(HOSTILE)}"')
    metrics = metrics.replace('query="orders"', f'query="{_label(HOSTILE)}"')
    metrics = metrics.replace('group="orders"', f'group="{_label(HOSTILE)}"')
    answers = {**ui, executors: json.loads(listed)}
    with serve(answers) as served, serve({"/metrics": metrics}) as endpoint:
        assert main.run(["report", "--live", "--once", endpoint.url, served.url]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count(SHOWN) >= 3  # query, topic, strategy
    assert "[/x]\\x1b[2Jjob" in out
    assert "[/e]\\x1b[2J1/0" in out
    assert not re.search(r"^assignor: all is well", out, re.MULTILINE)


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@pytest.mark.parametrize(
    "say",
    [
        lambda: output.note(HOSTILE),
        lambda: output.print_lines([HOSTILE]),
        lambda: output.print_checks([Check(HOSTILE, True, HOSTILE)]),
        lambda: output.print_table([""], [[HOSTILE]], title=HOSTILE),
        lambda: main.run(["lag", "--checkpoint", "/no", "--topic", HOSTILE]),
        lambda: main.run([HOSTILE]),
    ],
    ids=["note", "lines", "checks", "table", "error", "misuse"],
)
def test_every_command_escapes_the_names_that_it_prints(say, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")  # tables wrap
    say()
    out, err = capsys.readouterr()
    assert not set("\x1b\x07\u202e") & set(out + err)
    assert not re.search(r"^assignor: all is well", out + err, re.MULTILINE)


def test_an_error_escapes_only_unprintable_characters_of_a_name(tmp_path, capsys):
    query = write_query(tmp_path / "q", {"t": {0: 9}})
    assert main.run(["lag", "--checkpoint", str(query), "--topic", HOSTILE]) == 2
    assert f"--topic {SHOWN} assignor: all is well" in capsys.readouterr().err


def test_names_cannot_write_to_the_terminal_of_errors_or_lag(capsys):
    assert main.run(["lag", "--checkpoint", f"/no\x1b[2J/{HOSTILE}"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert err.count("\n") == 1
    table = format_table([Row(Position("g", HOSTILE, 0, offset=1))])
    assert SHOWN in table
    assert "\x1b" not in table


def test_a_report_escapes_html_in_names(tmp_path):
    topics = [{HTML: {0: 1000 * n, 1: 10 * n}} for n in (1, 2, 3)]
    checkpoint = write_checkpoint(tmp_path / "c", topics)
    log = tmp_path / "log.jsonl"
    lines = [
        samples.text(
            batch=n, topic=HTML, name=HTML, start={"0": n}, end={"0": n + 1}, latest={"0": 99},
            strategy=HTML, heldBackBy=HTML,
        )
        for n in (1, 2)
    ]  # fmt: skip
    log.write_text("\n".join(lines))
    for place in (checkpoint, log):
        output = tmp_path / "report.html"
        assert main.run(["report", str(place), "--output", str(output)]) == 0
        assert HTML in read_page(output)
        assert "onerror=alert(2)>" not in output.read_text()


NAME = f"{HTML}\x1b[2J\u202e\ud800"


@pytest.mark.parametrize(
    "made",
    [
        lambda: svg.text(0, 0, NAME),
        lambda: svg.rect((0, 0, 1, 1), "a", hint=NAME),
        lambda: svg.picture(1, NAME, []),
        lambda: svg.standalone_picture(NAME, [(NAME, svg.picture(1, "p", []))]),
        lambda: page.page(NAME, []),
        lambda: page.paragraph(NAME),
        lambda: page.section_heading(NAME),
        lambda: page.table([NAME], [[NAME, NAME]]),
        lambda: page.figure(NAME, "", NAME),
        lambda: page.cause(NAME, NAME, NAME),
        lambda: page.checks([Check(NAME, True, NAME)]),
        lambda: "".join(page.definitions({NAME: NAME})),
    ],
    ids=["text", "hint", "picture", "pictures", "page", "paragraph", "heading", "table", "figure",
         "finding", "checks", "definitions"],
)  # fmt: skip
def test_each_part_of_a_page_escapes_names(made):
    text = made()
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "\"'>" not in text
    assert not set("\x1b\u202e") & set(text)
    assert text.encode("utf-8")


BAD_SAMPLES = [
    'kafka_consumergroup_group_lag{group="q",topic="t",partition="x"} 1',
    'kafka_consumergroup_group_lag{group="q",topic="t",partition="0"} NaN',
    'kafka_consumergroup_group_lag{group="q",topic="t",partition="0"} +Inf',
    'kafka_consumergroup_group_lag{group="q",topic="t",partition="0"} 1e30',
    'kafka_consumergroup_group_lag{group="q",partition="0"} 1',
    'kafka_consumergroup_group_lag{topic="t",partition="0"} 1',
    'spark_streaming_batch_id{query="other"} 1',
    'assignor_info{query_id="id",strategy="s"} 1',
    "{",
]


@pytest.mark.parametrize("line", BAD_SAMPLES)
def test_an_unknown_metrics_endpoint_is_one_line(line, capsys):
    text = f'# HELP x y\nspark_streaming_batch_id{{query="q",query_id="id"}} 1\n{line}\n'
    with serve({"/metrics": text}) as endpoint:
        assert main.run(["report", "--live", "--once", endpoint.url]) == 2
    assert "serves no metrics: give the address of metrics.port" in capsys.readouterr().err


@trials(70)
@given(st.text(alphabet='{}",=\\ \n#abx01.+-NaInf_\x1b', max_size=80))
def test_any_response_of_an_endpoint_is_parsed_or_refused(text):
    known = 'spark_streaming_batch_id{query="q",query_id="id"} 1\n'
    try:
        parse_query_metrics(known + text, None, "here")
    except AssignorError:
        return


SHAPES: list[Any] = [None, 7, "x", [], [7], [{"id": 7}], {}, {"a": 1}, [[]], [None]]


@pytest.mark.parametrize("answer", SHAPES, ids=repr)
@pytest.mark.parametrize("what", ["", "/jobs", "/allexecutors", "/stages"])
def test_invalid_responses_of_sparks_ui_are_one_line(what, answer):
    root = "/api/v1/applications"
    place = f"{root}/{APP}{what}" if what else root
    answers = {**RECORDED, place: json.dumps(answer)}
    if what == "/stages":
        answers = {
            key: json.dumps(answer) if "/stages/" in key else v for key, v in RECORDED.items()
        }
    with serve(answers) as served:
        try:
            ui = SparkUi(Address.parse(served.url))
            ui.fetch_run(ui.fetch_batches())
        except AssignorError as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017


def test_an_endless_response_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(web, "_MAX_BYTES", 1000)
    with serve({"/long": "x" * 1001, "/short": "x" * 1000}) as served:
        address = Address.parse(served.url)
        assert len(address.get("/short")) == 1000
        asked, read = [], http.client.HTTPResponse.read

        def noted(answer: http.client.HTTPResponse, most: int | None = None) -> bytes:
            asked.append(most)
            return read(answer, most)

        monkeypatch.setattr(http.client.HTTPResponse, "read", noted)
        with pytest.raises(WebError, match="/long returned more than 1,000 bytes"):
            address.get("/long")
        assert asked[0] == 1001  # of an answer that may have no end


def test_the_limits_are_those_of_the_security_page():
    limits = (outlets._REQUEST_TIMEOUT_S, outlets._RESPONSE_TIMEOUT_S, outlets._MAX_CLIENTS)
    assert limits == (5.0, 30.0, 256)
    assert web._MAX_BYTES == 512 * 1024 * 1024


def test_nothing_is_unpickled_or_evaluated():
    banned = re.compile(
        r"\b(pickle|marshal|shelve|dill)\b|(?<![.\w])(eval|exec)\(|allow_pickle|ObjectInputStream"
        r"|yaml\.(unsafe_|full_)?load\("
    )
    places = [ROOT / top for top in ("assignor_bridge", "checkpoints", "streaming")]
    sources = [p for place in places for kind in ("py", "java") for p in place.rglob(f"*.{kind}")]
    assert len(sources) > 100
    for path in sources:
        assert not banned.search(path.read_text("utf-8")), path


def test_the_embedded_broker_listens_on_this_machine_alone(tmp_path):
    text = embedded_setup.format_settings((1, 2), tmp_path, {})
    [listeners] = re.findall(r"^listeners=(.*)$", text, re.MULTILINE)
    hosts = {one.partition("://")[2].rpartition(":")[0] for one in listeners.split(",")}
    assert hosts == {"127.0.0.1"}


ADDRESSES = [
    ":x", "http://:9", "h:70000", "h:80x", "h:1:2", "[::1", "[::1]x:99", "http://[::1]x:99",
    "http://h\t:1", "http://..:1", "http://" + "a" * 70, "http://h:1/\u00e9", "http://h:1/a b",
    "http://h\x00", "ftp://h:1", "http://",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_invalid_metrics_address_is_one_line(address, capsys):
    assert main.run(["report", "--live", "--once", address]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "is not an address: http://HOST:PORT is expected" in line


def test_an_ipv6_address_is_accepted():
    assert str(Address.parse("[::1]:99")) == "http://[::1]:99"


@pytest.mark.parametrize("host", ["", ":x", "[::1]", "[::1]:99", "h:99", "a..b", "a" * 70, "a b"])
def test_a_job_serves_metrics_on_its_host_or_reports_an_error(host, tmp_path, capsys):
    text = json.dumps(changed("metrics", {"port": 0, "address": host}))
    (tmp_path / "job.yaml").write_text(text)
    assert main.run(["run", str(tmp_path / "job.yaml"), "--dry-run"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "metrics.address" in line
    assert "only a host is expected" in line
    load_job(changed("metrics", {"port": 0, "address": "::1"}), environment={})


CHECKPOINT_FILES = [
    "metadata", "offsets/9", "offsets/12", "commits/9", "sources/0/0", "sources/1/0",
    "sources/0/assignments/3.v2", "offsets/00", "offsets/99999999999999999999",
]  # fmt: skip
PIECES = st.lists(
    st.sampled_from(
        ["v1", "v2", "v9", "\n", "\0", "-", "{", "}", "[" * 3000, '{"t":{"0":1}}', "1e999", ":",
         '{"t":{"0":' + "9" * 5000 + "}}", '{"t":{"0":-1}}', '{"t":{"0":null}}', "NaN", "\ud800",
         '{"batchTimestampMs":1e400}', '{"id":{}}', "0:", "\x85", "\u2028"]
    ),
    max_size=6,
).map("".join)  # fmt: skip


@trials(60)
@given(st.dictionaries(st.sampled_from(CHECKPOINT_FILES), PIECES | st.binary(max_size=40),
                       min_size=1, max_size=3))  # fmt: skip
def test_any_bytes_in_a_checkpoint_are_read_or_reported_in_one_line(tmp_path_factory, files):
    folder = a_checkpoint(tmp_path_factory.mktemp("checkpoint"))
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        place.write_bytes(raw)
    try:
        read_checkpoint_folder(LocalFolder(folder))
    except CheckpointError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017


def test_a_pipe_or_a_huge_file_in_a_checkpoint_fails_at_once(tmp_path, monkeypatch):
    folder = a_checkpoint(tmp_path)
    states = folder / "sources/0/assignments"
    states.mkdir()
    os.mkfifo(states / "5.v2")
    assert read_checkpoint_folder(LocalFolder(folder)).warnings == (
        "sources/0/assignments/5.v2: 'sources/0/assignments/5.v2' is not a file",
    )
    (folder / "offsets/12").unlink()
    os.mkfifo(folder / "offsets/12")
    with pytest.raises(CheckpointError, match="cannot be read: 'offsets/12' is not a file"):
        read_checkpoint_folder(LocalFolder(folder))
    monkeypatch.setattr(folders, "MAX_FILE_BYTES", 5)
    with pytest.raises(CheckpointError, match="'metadata' has more than 5 bytes"):
        read_checkpoint_folder(LocalFolder(folder))


NUMBERS = {
    "hexadecimal": "0x" + "f" * 5_000,
    "binary": "0b" + "1" * 5_000,
    "base 60": "1" + ":01" * 100_000,
    "fraction": "1." + "0" * 5_000,
}


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("key", ["name", "maxOffsetsPerTrigger"])
def test_a_number_of_any_length_fails_at_once_in_one_line(number, key, tmp_path, capsys):
    (tmp_path / "job.yaml").write_text(f"{key}: {number}\n")
    assert main.run(["run", str(tmp_path / "job.yaml"), "--dry-run"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert len(line) < 300


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        pytest.param("sink/target_file_size", "9" * 400 + "GB", "a size such as", id="size"),
        pytest.param("sink/compact_every", 2**31, "at most 2147483647", id="count"),
        pytest.param("seed", {"t": {"file": "f", "partitions": 2**70}}, "at most 2147483647",
                     id="partitions"),
        pytest.param("name", "../../elsewhere", "a name of ASCII letters", id="name"),
        pytest.param("name", "a\x1b[2J", "a name of ASCII letters", id="name with an escape"),
        pytest.param("sinks", {"../up": {"path": "x"}}, "sinks", id="sink"),
        pytest.param("sources", {"a/../b": {"subscribe": "t"}}, "sources", id="source"),
        pytest.param("transform", {"python": "../up:f"}, "a function such as", id="module"),
        pytest.param("transform", {"python": "/folder/up:f"}, "a function such as", id="a file"),
    ],
)  # fmt: skip
def test_absurd_numbers_and_paths_are_one_line(path, value, message):
    with pytest.raises(ConfigError) as raised:
        load_job(changed(path, value), environment={})
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_too_deep_json_is_left_for_spark_to_reject():
    data = changed("source/subscribe", None)
    data["source"]["assign"] = "[" * 100_000
    assert load_job(data, environment={}).job.all_sources["records"].topics == []


@trials(60)
@given(
    st.lists(
        st.sampled_from(
            ["name: ", "source:\n", "  subscribe: ", "- ", "&a ", "*a", "<<: ", "!!set ",
             "!!binary ",
             "!!timestamp ", "2024-01-01", "{", "}", "[", "]", "? ", ": ", "|\n", "\t", "\n",
             "${X}", "${", "1_0:59", ".inf", "0o7", "~", "'", '"', "\\x1b", "%YAML 9.9\n", "---\n",
             "\x07"]
        ),
        max_size=12,
    ).map("".join)
)  # fmt: skip
def test_any_yaml_is_a_job_or_an_error_in_one_line(tmp_path_factory, text):
    file: Path = tmp_path_factory.mktemp("job") / "job.yaml"
    file.write_text(text)
    try:
        load_job(file, environment={"X": "x"})
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017


@pytest.mark.parametrize("value", ["*topsecret99", "!topsecret99 x", "&a [!topsecret99 x]"])
def test_a_password_with_yaml_syntax_is_not_shown(value, tmp_path, capsys):
    (tmp_path / "job.yaml").write_text(f"name: {value}\n")
    assert main.run(["run", str(tmp_path / "job.yaml"), "--dry-run"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(r"line 1, column \d+: not valid YAML: ", line)
    assert "topsecret99" not in line


@pytest.mark.parametrize("path", ["//[", "a%00b", "file:///dev/zero", "/dev/zero", "pipe"])
def test_paths_in_a_tables_log_are_read_only_if_regular_files(path, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    files = DataFiles(tmp_path)
    assert not files.is_remote(path)
    assert files.read_size(path) is None


def test_an_invalid_checkpoint_path_is_one_line(capsys):
    assert main.run(["lag", "--checkpoint", "//["]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "'//[' is not a streaming checkpoint" in line


@pytest.mark.parametrize("assignment", ["topsecret99", 'required "topsecret99";', "=x"])
def test_a_value_without_its_key_is_not_shown(assignment, capsys, tmp_path):
    (tmp_path / "job.yaml").write_text(json.dumps(GOOD))
    assert main.run(["run", str(tmp_path / "job.yaml"), "--dry-run", "--set", assignment]) == 2
    out, err = capsys.readouterr()
    assert "topsecret99" not in out + err
    assert "--set: key.path=value is expected" in err


LOGINS = ["ann:topsecret99@b:9092", "x:1,ann:top,secret99@b:9092", "SASL://ann:topsecret99@b:9092"]


@pytest.mark.parametrize("address", LOGINS)
def test_a_login_in_a_brokers_address_is_refused_and_not_shown(address, capsys, tmp_path):
    data = changed("source/kafka.bootstrap.servers", address)
    (tmp_path / "job.yaml").write_text(json.dumps(data))
    calls = [
        (["run", str(tmp_path / "job.yaml")], 2),
        (["lag", "--group", "g", "--bootstrap-server", address], 2),
        (["init", str(tmp_path / "new.yaml"), "--topic", "t", "--bootstrap-server", address], 2),
    ]
    for words, code in calls:
        assert main.run(words) == code
        out, err = capsys.readouterr()
        assert not re.search("secret99|ann:", out + err)
        assert "'b:9092': remove the credentials before it; only host:port is expected" in err
