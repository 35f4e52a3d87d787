"""Rules for all commands: help, docs, one line per error, exit codes, no tracebacks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import orjson
import pytest
from typer.main import get_command

from assignor_bridge import __version__
from assignor_bridge.errors import AssignorError, OptionError
from streaming.cli import doctor, earlier_names, jars, main, output
from streaming.cli.all import app
from streaming.cli.output import print_lines, print_table
from streaming.cli.stopping import StopSignals
from streaming.observe.check_result import Check
from streaming.observe.checkpoint_files import read_checkpoint
from tests.unit.lag.checkpoint_files import write_query
from tests.unit.streaming.test_cli_plan import GOOD

ROOT = Path(__file__).parents[3]
COMMANDS = get_command(app).commands
LAB = {f"lab {name}": command for name, command in COMMANDS["lab"].commands.items()}
LEAVES = {name: command for name, command in COMMANDS.items() if name != "lab"} | LAB


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_has_an_example_and_help_for_each_option(name, capsys):
    command = LEAVES[name]
    [example] = re.findall(rf"Example: `.*?assignor ({name}\b.*?)`", command.help)
    flags = {word.rstrip(")") for word in example.split() if word.startswith("-")}
    assert flags <= {opt for p in command.params for opt in p.opts}
    assert [p.name for p in command.params if not getattr(p, "help", None)] == []
    assert main.run([*name.split(), "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


def test_a_lab_command_imports_no_other_command():
    """Importing all commands takes half as long again, and `lab plan` needs no Kafka client."""
    code = (
        "import sys; from streaming.cli import main; main.build_app(['lab', 'plan']); "
        "print(*(name for name in sys.modules if name in "
        "('confluent_kafka', 'streaming.cli.lag', 'streaming.cli.simulate')))"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout == b"\n"


def test_help_lists_nine_commands_in_order_of_use(capsys):
    assert main.run(["--help"]) == 0
    listed = re.findall(r"^│ ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)
    assert " ".join(listed) == "init run estimate report lag audit doctor jars demo"


@pytest.mark.parametrize(
    ("earlier", "today"),
    [
        ("top http://h:1", "report --live http://h:1"),
        ("explain --checkpoint c --plan-log p", "report --batch=-1 c p"),
        ("replay --checkpoint=c --cost-us 1", "estimate c --cost-us 1"),
        ("lag --checkpoint c --json", "lag c --json"),
        ("offsets --group g", "lag --as=starting-offsets --group g"),
        ("audit --table t --checkpoint c", "audit c --table t"),
        ("audit --checkpoint a --table t --checkpoint b", "audit b --table t"),
        ("lag --checkpoint -c", "lag ./-c"),
        ("lag -- --checkpoint", "lag -- --checkpoint"),
        ("doctor --checkpoint c --delta-table t", "doctor --checkpoint c --table t"),
        ("demo --report=r.html", "demo --output=r.html"),
        ("jars --job j.yaml", "jars j.yaml"),
        ("plan --own p:C -", "lab plan --assignors p:C -"),
        ("lab assign --own p:C -", "lab assign --assignors p:C -"),
        ("lab simulate --own p:C", "lab simulate --own p:C"),
        ("schema", "lab schema"),
        ("", ""),
    ],
)
def test_former_names_still_work(earlier, today):
    assert earlier_names.replace_former_names(earlier.split()) == today.split()


@pytest.mark.parametrize(
    "words",
    ["audit --table t --checkpoint", "audit --checkpoint --table t", "lag --group g --checkpoint",
     "jars --job", "jars --job --json", "explain --checkpoint c --plan-log"],
)  # fmt: skip
def test_a_former_option_without_its_value_is_a_usage_error(words, capsys):
    """An unset variable causes this: without the argument, commands would check or print less."""
    assert main.run(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1


def test_the_cli_reference_is_up_to_date(tmp_path):
    """Regenerate: `typer streaming.cli.all utils docs --name assignor --output docs/cli.md`."""
    words = ["streaming.cli.all", "utils", "docs", "--name", "assignor", "--output"]
    subprocess.run(
        [sys.executable, "-m", "typer", *words, str(tmp_path / "cli.md")],
        check=True, capture_output=True, cwd=ROOT,
    )  # fmt: skip
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == (tmp_path / "cli.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["bogus"], "No such command 'bogus'", id="unknown command"),
        pytest.param(["broker", "--bogus"], "No such option", id="unknown option"),
        pytest.param(["broker", "--port", "x"], "Invalid value for '--port'", id="not a number"),
        pytest.param(["broker", "--port", "70000"], "Invalid value for '--port'", id="not a port"),
        pytest.param(["demo", "--workers", "0"], "Invalid value for '--workers'", id="no worker"),
        pytest.param(["demo", "--report", "/no/such/r.html"], "report's folder", id="no folder"),
        pytest.param(["demo", "--data", "/no/such"], "data folder does not exist", id="no data"),
        pytest.param(
            ["demo", "--rows", "3"],
            "--rows is 3: at least --batches (4) is expected",
            id="few rows",
        ),
    ],
)
def test_a_usage_error_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert main.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("assignor: ")
    assert message in err
    assert len(err.splitlines()) == 1


ADDRESS = "s3a://AKIAKEY:S3/CR@ET+@bucket/path"
CREDENTIALS = re.compile(r"AKIAKEY|S3/CR|ET\+")


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            [command, "--checkpoint", ADDRESS]
            for command in ("lag", "offsets", "doctor", "estimate")
        ),
        ["report", ADDRESS],
        ["report", ADDRESS, ADDRESS],
        ["report", "/", "--output", ADDRESS],
        ["top", ADDRESS],
        ["report", "--live", ADDRESS],
        ["top", "http://AKIAKEY:S3@localhost:1"],
        ["run", ADDRESS],
        ["jars", "--job", ADDRESS],
        ["assign", ADDRESS],
        ["plan", ADDRESS],
        ["init", ADDRESS],
        ["doctor", "--delta-table", ADDRESS],
        ["lag", "--group", "g", "--bootstrap-server", ADDRESS],
        ["lag", "--group", "g", "--bootstrap-server", "AKIAKEY:S3/CR@host:9092"],
        ["lag", "--group", "g", "--command-config", ADDRESS],
        ["estimate", "--checkpoint", "/", "--output", f"{ADDRESS}.svg"],
        ["demo", "--data", ADDRESS],
        ["demo", "--report", ADDRESS],
        ["broker", "--data", "/dev/null", ADDRESS],
    ],
    ids=" ".join,
)
def test_credentials_in_an_address_appear_in_no_message(arguments, capsys):
    assert main.run(arguments) in (1, 2)
    out, err = capsys.readouterr()
    assert err.startswith("assignor: ")
    assert CREDENTIALS.search(out + err) is None


def test_credentials_do_not_appear_in_errors_of_read_checkpoint():
    with pytest.raises(OptionError) as raised:
        read_checkpoint(ADDRESS)
    assert CREDENTIALS.search("".join(traceback.format_exception(raised.value))) is None


def test_credentials_in_a_table_address_appear_in_no_check(tmp_path, capsys):
    query = write_query(tmp_path / "q", {"t": {0: 9}})
    assert main.run(["doctor", "--checkpoint", query, "--delta-table", ADDRESS]) == 2
    output.print_checks([Check(f"Delta table {ADDRESS}", False, f"no {ADDRESS}")])
    output.note(f"no {ADDRESS}")
    out, err = capsys.readouterr()
    assert out == "FAILED Delta table s3a://***@bucket/path: no s3a://***@bucket/path\n"
    assert CREDENTIALS.search(err) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--lags", "x"], "'--lags': 'x' is not one of 'uniform', 'zipf'"),
        (["simulate", "--batches", "x"], "'--batches': a whole number is expected (see"),
        (["simulate", "--noise", "x"], "'--noise': a number is expected"),
        (["simulate", "--partitions", "0"], "'--partitions': at least 1 is expected"),
        (["broker", "--port", "70000"], "'--port': at most 65535 is expected"),
        (["simulate", "--seed", "-1"], "'--seed': at least 0 is expected"),
        (["simulate", "--cost-ms", "inf"], "'--cost-ms': at most 1000000 is expected"),
        (["estimate", "--checkpoint", "q", "--cost-us", "inf"], "'--cost-us': at most 1000000000"),
        (["top", "h:1", "--interval", "inf"], "'--interval': at most 3600 is expected"),
        (["lag", "--group", "g", "--sort", "x"], "'--sort': 'x' is not one of"),
    ],
)
def test_an_invalid_value_is_described_in_plain_words(arguments, message, capsys):
    assert main.run(arguments) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"assignor: Invalid value for {message}")


def test_help_names_the_exit_codes_of_both_signals(capsys):
    assert main.run(["--help"]) == 0
    assert "130 or 143 after Ctrl-C or SIGTERM" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        pytest.param(OptionError("bad 'x':\n  no"), 2, "assignor: bad 'x': no\n", id="usage error"),
        pytest.param(AssignorError("[red] broken"), 1, "assignor: [red] broken\n", id="failure"),
        pytest.param(KeyboardInterrupt(), 130, "", id="Ctrl-C"),
        pytest.param(BrokenPipeError(), 1, "", id="the reader has gone"),
    ],
)
def test_errors_become_exit_codes(error, code, line, monkeypatch, capsys):
    def fail() -> None:
        raise error

    monkeypatch.setattr(jars, "prepare_packages", fail)
    assert main.run(["jars"]) == code
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["offsets", "--group", " "], "--group is empty", id="group"),
        pytest.param(["lag", ""], "CHECKPOINT is empty", id="checkpoint"),
        pytest.param(["doctor", "--checkpoint", ""], "--checkpoint is empty", id="doctor"),
        pytest.param(["estimate", ""], "CHECKPOINT is empty", id="estimate"),
        pytest.param(["report", ""], "CHECKPOINT|URL|LOG is empty", id="report"),
        pytest.param(["doctor", "--table", ""], "--table is empty", id="table"),
        pytest.param(["demo", "--bootstrap-server", ""], "--bootstrap-server '': host:port",
                     id="demo"),
        pytest.param(["lag", "--group", "g", "--topic", ""], "--topic is empty", id="topic"),
        pytest.param(["offsets", "--group", "g", "--topic", ""], "--topic is empty", id="a topic"),
        pytest.param(["doctor", "--bootstrap-server", ""], "--bootstrap-server '': host:port",
                     id="brokers"),
    ],
)  # fmt: skip
def test_an_empty_name_is_a_usage_error(arguments, message, capsys):
    assert main.run(arguments) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"assignor: {message}")


def test_an_empty_group_is_rejected_before_librdkafka_aborts():
    words = ["lag", "--group", "", "--bootstrap-server", "127.0.0.1:1"]
    done = assignor(*words, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "assignor: --group is empty: check that your shell variable is set\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--group", "gr\udcfc"], "--group 'gr\\udcfc' is not UTF-8", id="group"),
        pytest.param(["--group", "g", "--topic", "\udcff"], "--topic '\\udcff' is not UTF-8",
                     id="topic"),
        pytest.param(["--group", "g", "--bootstrap-server", "\udcfc://h:9"],
                     "--bootstrap-server '\\udcfc://h:9': host:port", id="brokers"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["lag", "offsets"])
def test_a_name_that_is_not_utf8_is_rejected_before_librdkafka_aborts(command, arguments, message):
    words = [command, "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.1", *arguments]
    done = assignor(*words, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"assignor: {message}")


@pytest.mark.parametrize(
    "words",
    [
        ["lag", "--checkpoint", "q"],
        ["lag", "--group", "g"],
        ["offsets", "--checkpoint", "q"],
        ["doctor"],
        ["doctor", "--checkpoint", "q"],
        ["estimate", "--checkpoint", "q", "--racks", "racks"],
    ],
    ids=" ".join,
)
def test_a_command_config_without_brokers_is_rejected(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_query(tmp_path / "q", {"t": {0: 9}})
    Path("racks").write_text("h1=a\n")
    Path("login").write_text("security.protocol=SASL_SSL\n")
    assert main.run([*words, "--command-config", "login"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    message = "--command-config login has no bootstrap.servers: give --bootstrap-server"
    assert err == f"assignor: {message}\n"


def test_an_unpaired_surrogate_is_reported_with_its_setting(tmp_path, capsys):
    config = tmp_path / "login"
    config.write_text("bootstrap.servers=127.0.0.1:1\nclient.id=\\ud800\n")
    assert main.run(["lag", "--group", "g", "--command-config", str(config)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"assignor: --command-config {config}: setting 'client.id' has half of")


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("host:99999", "the port must be from 1 to 65535"),
        ("host:0", "the port must be from 1 to 65535"),
        ("a:1,host:" + "9" * 5_000, "the port must be from 1 to 65535"),
        ("host", "host:port is expected"),
        ("[::1]", "host:port is expected"),
        (" , ", "host:port is expected"),
        ("a b:9", "host:port is expected"),
        (".svc:9092", "host:port is expected"),
        ("http://localhost:9092", "host:port is expected, not an HTTP URL"),
    ],
)
def test_an_invalid_address_is_rejected_before_any_request(server, message, tmp_path, capsys):
    (tmp_path / "c").write_text(f"bootstrap.servers={server}\n")
    for words in (["--bootstrap-server", server], ["--command-config", str(tmp_path / "c")]):
        if server.strip(", ") or "--bootstrap-server" in words:
            assert main.run(["lag", "--group", "g", *words]) == 2
            [line] = capsys.readouterr().err.splitlines()
            assert message in line


def assignor(*arguments: str, stdout: int, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streaming.cli.main", *arguments], stdout=stdout,
        stderr=subprocess.PIPE, text=True, check=False, env=os.environ | environment,
    )  # fmt: skip


@pytest.mark.parametrize("command", [["schema"], ["--help"]])
def test_a_full_disk_is_one_line(command):
    with Path("/dev/full").open("w") as full:
        done = assignor(*command, stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr == "assignor: output: No space left on device\n"


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_full_disk_while_answering_is_one_line(flags, tmp_path):
    """A failed write is no bug, so it must not print a traceback per answer."""
    snapshots = tmp_path / "snapshots.jsonl"
    snapshots.write_bytes(3 * orjson.dumps(GOOD, option=orjson.OPT_APPEND_NEWLINE))
    with Path("/dev/full").open("w") as full:
        done = assignor("plan", *flags, str(snapshots), stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr == "assignor: output: No space left on device\n"


@pytest.mark.parametrize("command", [["--version"], ["schema"]])
def test_a_closed_stdout_causes_no_traceback(command):
    words = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "streaming.cli.main"]
    done = subprocess.run([*words, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_terminal_without_unicode_gets_escapes(tmp_path):
    query = write_query(tmp_path / "é", {"t": {0: 9}})
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = assignor("estimate", "--checkpoint", query, stdout=subprocess.PIPE, **ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert "assumed; see --executors" in done.stdout
    done = assignor("lag", "--checkpoint", f"{query}ü", stdout=subprocess.PIPE, **ascii_only)
    assert done.returncode == 2
    assert done.stderr.startswith(f"assignor: '{tmp_path}/\\udcc3\\udca9\\udcc3\\udcbc' is not")


def test_no_command_shows_the_help(capsys):
    assert main.run([]) == 2
    assert capsys.readouterr().err == ""


def test_version(capsys):
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"assignor {__version__}\n"


def test_jars_prints_flags_and_json(capsys):
    assert main.run(["jars"]) == 0
    first, coordinates, second, repository = capsys.readouterr().out.split()
    assert (first, second) == ("--packages", "--repositories")
    assert main.run(["jars", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out) == {
        "packages": coordinates.split(","),
        "repositories": [repository],
    }


def test_doctor_accepts_a_jdk_or_jre_and_reports_a_missing_java(monkeypatch, tmp_path, capsys):
    assert main.run(["doctor"]) == 0
    assert "FAILED" not in capsys.readouterr().out
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main.run(["doctor"]) == 1
    assert "'java' was not found in JAVA_HOME" in capsys.readouterr().out
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\"' >&2\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    main.run(["doctor"])
    assert re.search(
        r'ok +Java 17 or 21: openjdk version "17.0.9", .*javac is missing', capsys.readouterr().out
    )
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    assert main.run(["doctor"]) == 1
    assert "JAVA_HOME is not a folder: /nonexistent" in capsys.readouterr().out


def test_doctor_reports_an_unwritable_cache(monkeypatch, capsys):
    monkeypatch.setenv("ASSIGNOR_BRIDGE_CACHE", "/proc/no")
    assert main.run(["doctor"]) == 1
    assert "FAILED the jar cache is writable: the cache /proc/no" in capsys.readouterr().out


def test_doctor_checks_the_given_brokers(tmp_path, capsys):
    words = ["doctor", "--bootstrap-server", "127.0.0.1:1"]
    assert main.run(words) == 1
    check = "FAILED brokers answer: no broker answers at '127.0.0.1:1' ("
    assert check in capsys.readouterr().out
    config = tmp_path / "client.properties"
    config.write_text("client.id=me\n")
    assert main.run([*words, "--command-config", str(config)]) == 1
    assert check in capsys.readouterr().out
    assert main.run(["doctor", "--command-config", str(config)]) == 2
    assert f"{config} has no bootstrap.servers: give" in capsys.readouterr().err


def test_doctor_prints_markup_unchanged(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine_machine", lambda: [Check("a", True, "[b] c")])
    assert main.run(["doctor"]) == 0
    assert capsys.readouterr().out == "ok     a: [b] c\n"


@pytest.mark.parametrize("columns", ["20", "80"])
def test_a_table_in_a_pipe_is_never_truncated(columns, monkeypatch, capsys):
    """12,345,678,901 must not become "12,3…" in a log file."""
    monkeypatch.setenv("COLUMNS", columns)
    head = ["TOPIC", "FIRST BATCH", "LAST BATCH", "OFFSETS", "RECORDS", "VERSIONS"]
    print_table(head, [["a-topic-of-some-length", "0", *["12,345,678,901"] * 4]])
    out = capsys.readouterr().out
    assert out.count("12,345,678,901") == 4
    assert all(name in out for name in head)


@pytest.fixture
def narrow(monkeypatch):
    """Make stdout a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich treat the captured output as a terminal
    monkeypatch.setenv("NO_COLOR", "1")


def test_a_narrow_terminal_truncates_no_word(narrow, capsys):
    names = ["lag-aware-sticky, constrained-cooperative-sticky, cooperative-sticky", "range"]
    head = ("mapping", "saves a batch", "regret", "worst batch", "tasks", "moved")
    print_table(head, [[name, "579 ms", "48.6%", "102.1%", "1,024", "38.5%"] for name in names])
    print_lines(["- " + "a sentence of several lag-aware-sticky words " * 5])
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    out = " ".join(lines)
    assert all(name in out for name in ("constrained-cooperative-sticky", "579 ms", "1,024"))
    assert not re.search(r"[a-z]-$", "\n".join(lines), re.MULTILINE)


def test_help_shows_no_types_for_flags_and_shells_complete(capsys, monkeypatch):
    assert main.run(["lag", "-h"]) == 0
    out = capsys.readouterr().out
    assert "--json" in out
    assert not re.search("<(bool|int|str|path)", out)
    monkeypatch.setenv("_ASSIGNOR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "assignor re")
    monkeypatch.setenv("COMP_CWORD", "1")
    done = subprocess.run(
        [Path(sys.executable).with_name("assignor")], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["report"]


def test_a_command_imports_no_other():
    program = (
        "import sys; from streaming.cli import main; code = main.run(['lag', '--group', 'g']);"
        "print(code, {'numpy', 'streaming.cli.demo', 'streaming.cli.lag'} & {*sys.modules})"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "2 {'streaming.cli.lag'}\n"


def test_sigterm_unwinds_a_command_as_ctrl_c_does():
    """Otherwise `assignor demo` would leave its topics on the user's Kafka and a scratch folder."""
    script = (
        "import signal\n"
        "from streaming.cli.stopping import unwind_on_sigterm\n"
        "try:\n"
        "    with unwind_on_sigterm():\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "finally:\n"
        "    print('tidy')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("tidy\n", "", 143)


def test_a_bug_is_one_line_that_names_the_traceback_file(tmp_path):
    """A user must not see a long traceback, and it must not contain secrets."""
    code = (
        "from streaming.cli import main, jars\n"
        "def jars_of_a_bug(): raise TypeError('password=topsecret99 is no number')\n"
        "jars.jars = jars_of_a_bug\n"
        "main.main(['jars'])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert run.returncode == 1
    [line] = run.stderr.splitlines()
    assert line.startswith("assignor: a bug in assignor, please report it: TypeError: ")
    path = Path(line.rpartition("its traceback is in ")[2])
    assert tmp_path in path.parents
    text = path.read_text()
    assert "jars_of_a_bug" in text
    assert "topsecret99" not in text + line


def test_a_signal_in_a_callback_of_import_stops_after_the_callback():
    """Python prints and drops an exception that is raised there."""
    scope = {"signal": signal}
    text = "def cb(): signal.raise_signal(signal.SIGTERM)"
    exec(compile(text, "<frozen importlib._bootstrap>", "exec"), scope)  # noqa: S102
    with StopSignals() as signals:
        try:
            scope["cb"]()  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001
            pytest.fail(f"{type(error).__name__} was raised in the callback")
        threading.Event().wait(60)
        pytest.fail("no exception after the callback")
    assert signals.number == signal.SIGTERM


def test_an_error_after_a_signal_is_suppressed():
    """Otherwise Ctrl-C while Spark starts would be reported as a failure of the JVM."""
    for error in (OSError(), AssignorError("Spark does not start")):
        with StopSignals() as signals:
            signals.defer_signals()
            signal.raise_signal(signal.SIGTERM)
            raise error
        assert signals.number == signal.SIGTERM
    with StopSignals() as signals:
        raise KeyboardInterrupt  # by pyspark's own handler
    assert signals.number == signal.SIGINT
    with pytest.raises(AssignorError), StopSignals():
        raise AssignorError("without a signal")
