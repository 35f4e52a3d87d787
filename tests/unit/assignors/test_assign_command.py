"""`assignor assign`: the JSON contract, the table, and its errors."""

from __future__ import annotations

import base64
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from checkpoints.user_data import encode_claim
from streaming.cli.main import run
from streaming.human_json.group_json import answer, answer_steps, parse_request
from streaming.human_json.json_input import InputError

if TYPE_CHECKING:
    from pathlib import Path

GROUP: dict[str, Any] = {
    "assignor": "sticky",
    "topics": {"t0": 3},
    "members": {
        "C0": {
            "topics": ["t0"], "owned": {"t0": [0]}, "generation": 4, "rack": None, "priority": None,
        },
        "C1": {"topics": ["t0"]},
    },
    "lags": {"t0": {"0": 100000}},
    "steps": [{"leave": ["C0"]}, {"join": {"C2": {"topics": ["t0"]}}}, {"topics": {"t0": 4}}, {}],
}  # fmt: skip


@pytest.fixture
def assigned(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Run the command on groups (or text); return (exit code, lines of JSON or text, stderr)."""
    monkeypatch.setattr("sys.path", ["/", *__import__("sys").path])

    def call(*groups: Any, options: tuple[str, ...] = ("--json",)) -> tuple[int, Any, str]:
        path = tmp_path / "groups.jsonl"
        path.write_text("\n".join(g if isinstance(g, str) else json.dumps(g) for g in groups))
        code = run(["assign", *options, str(path)])
        out, err = capsys.readouterr()
        if "--json" in options:
            return code, [json.loads(line) for line in out.splitlines()], err
        return code, out, err

    return call


def test_one_group(assigned: Any) -> None:
    code, answers, err = assigned({**GROUP, "steps": []})
    assert (code, err) == (0, "")
    assert answers == [
        {"assignor": "sticky", "assignment": {"C0": {"t0": [0, 2]}, "C1": {"t0": [1]}}}
    ]


def test_a_chain_plays_the_steps(assigned: Any) -> None:
    code, [answered], _ = assigned(GROUP, options=("--json", "--chain"))
    assert code == 0
    assert [step["assignment"] for step in answered["steps"]] == [
        {"C0": {"t0": [0, 2]}, "C1": {"t0": [1]}},
        {"C1": {"t0": [0, 1, 2]}},
        {"C1": {"t0": [0, 1]}, "C2": {"t0": [2]}},
        {"C1": {"t0": [0, 1]}, "C2": {"t0": [2, 3]}},
        {"C1": {"t0": [0, 1]}, "C2": {"t0": [2, 3]}},
    ]
    assert answered["steps"][1]["step"] == {"leave": ["C0"]}


def test_steps_without_chain_are_ignored_with_a_note(assigned: Any) -> None:
    code, [answered], err = assigned(GROUP)
    assert code == 0
    assert "steps" not in answered
    assert "add --chain" in err


def test_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(GROUP).encode())))
    assert run(["assign", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["assignor"] == "sticky"


def test_user_data_replace_a_missing_claim() -> None:
    data = base64.b64encode(encode_claim({"t0": [0]}, 4)).decode()
    members = {"C0": {"topics": ["t0"], "owned_user_data": data}, "C1": {"topics": ["t0"]}}
    ours = parse_request(json.dumps({**GROUP, "members": members})).group.members[0]
    assert (ours.owned, ours.generation) == ({"t0": (0,)}, 4)


def test_offsets_become_lags() -> None:
    offsets = {
        "0": {"beginning": 0, "latest": 9, "committed": None},
        "1": {"latest": 9, "committed": 2},
    }
    data = {**GROUP, "offsets": {"t0": offsets}, "offset_reset": "earliest"}
    data.pop("lags")
    assert parse_request(json.dumps(data)).group.lag_list() == [9, 7, 0]


def test_cooperative_rounds_are_steps(assigned: Any) -> None:
    members = {
        "C0": {"topics": ["t0"], "owned": {"t0": [0, 1, 2, 3]}, "generation": 1},
        "C1": {"topics": ["t0"]},
    }
    group = {
        "assignor": "cooperative-sticky",
        "topics": {"t0": 4},
        "members": members,
        "steps": [{}],
    }
    _, [answered], _ = assigned(group, options=("--json", "--chain"))
    assert answered["steps"][0]["withheld"] == {"t0": [2, 3]}
    assert answered["steps"][1]["assignment"] == {"C0": {"t0": [0, 1]}, "C1": {"t0": [2, 3]}}


def test_errors_are_lines_and_the_other_groups_are_answered(assigned: Any) -> None:
    mixed = {"C0": {"topics": ["t0"]}, "C1": {"topics": ["t0", "t1"]}}
    refused = {"assignor": "streams", "topics": {"t0": 1, "t1": 1}, "members": mixed}
    code, answers, err = assigned({**GROUP, "assignor": "nope"}, refused, {**GROUP, "steps": []})
    assert code == 2
    assert answers[0]["error"].startswith("unknown assignor 'nope': use one of ")
    assert "'C1' subscribes to 't1' and 'C0' does not" in answers[1]["error"]
    assert "assignment" in answers[2]
    assert err.count("\n") == 2


@pytest.mark.parametrize(
    ("step", "text"),
    [
        pytest.param({"leave": ["X"]}, "step 1: 'X' cannot leave", id="stranger"),
        pytest.param({"join": {"C0": {"topics": []}}}, "step 1: 'C0' cannot join", id="twice"),
    ],
)
def test_invalid_steps_are_rejected(assigned: Any, step: Any, text: str) -> None:
    code, [answered], _ = assigned({**GROUP, "steps": [step]}, options=("--json", "--chain"))
    assert code == 2
    assert text in answered["error"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"topics": {"t0": -1}}, "topics.t0 is -1: at least 0 is expected", id="count"),
        pytest.param({"topics": {"t0": 1e99}}, "topics.t0 is 1e[+]99", id="float count"),
        pytest.param(
            {"topics": {"a": 9**7, "b": 9**7, "c": 9**7}},
            "topics: 14,348,907 partitions in total: at most",
            id="too many",
        ),
        pytest.param({"topics": []}, r"topics is \[\]: a mapping is expected", id="list"),
        pytest.param({"members": {"C": {}}}, "members.C: 'topics' is missing", id="no topics"),
        pytest.param({"members": {"C": {"topics": "t0"}}}, "a list is expected", id="a string"),
        pytest.param(
            {"members": {"C": {"topics": [3]}}}, "text in quotes is expected", id="a number"
        ),
        pytest.param(
            {"members": {"C": {"topics": [], "generations": 3}}},
            "members.C: unknown key 'generations'; did you mean 'generation'",
            id="typo",
        ),
        pytest.param(
            {"members": {"C": {"topics": [], "owned_user_data": "?"}}}, "not base64", id="base64"
        ),
        pytest.param(
            {"members": {"C": {"topics": [], "owned_user_data": "AAAA", "generation": 1}}},
            "give 'owned_user_data', or 'owned' and 'generation', but not both",
            id="two claims",
        ),
        pytest.param({"lags": {"t0": {"x": 1}}}, "lags.t0.x: a partition number from 0", id="key"),
        pytest.param({"lags": {"t0": {"0": True}}}, "lags.t0.0 is true: a number", id="bool"),
        pytest.param(
            {"offsets": {}}, "'lags' and 'offsets' cannot be combined", id="lags and offsets"
        ),
        pytest.param({"steps": [3]}, r"steps\[0\] is 3: a mapping", id="step"),
        pytest.param({"assignor": 3}, "assignor is 3: text in quotes", id="assignor"),
        pytest.param({"standby_replicas": -1}, "standby_replicas is -1", id="standbys"),
        pytest.param(
            {"topics": {"t0": 2**64}},
            "topics.t0 is 18446744073709551616: at most 10000000",
            id="2^64",
        ),
        pytest.param(
            {"lags": {"t0": {"0": 10**400}}}, "lags.t0.0 is a number of about 401", id="lag"
        ),
        pytest.param(
            {"lags": {"t0": {"0": 1, "00": 2}}}, "lags.t0.00: a partition number", id="0 and 00"
        ),
        pytest.param({"lags": []}, r"lags is \[\]: a mapping", id="falsy lags"),
        pytest.param({"steps": 0}, "steps is 0: a list", id="falsy steps"),
        pytest.param(
            {"topics": {"t" * 250: 1}}, "at most 249 characters are expected", id="long name"
        ),
        pytest.param(
            {"steps": [{"topics": {"a": 9**7}}, {"topics": {"b": 9**7}}, {"topics": {"c": 9**7}}]},
            r"topics after steps\[2\]: 14,348,910 partitions",
            id="too many over all steps",
        ),
        pytest.param({"steps": [{"leave": [3]}]}, r"steps\[0\].leave\[0\] is 3", id="leave"),
        pytest.param(
            {"options": {"assignor.a.b": "1", "assignor.A.b": "2"}},
            "options: 'assignor.A.b' is given twice",
            id="option twice",
        ),
        pytest.param(
            {"options": {"split": "1"}},
            "options: 'split' is not an option of a custom",
            id="options",
        ),
        *(
            pytest.param({"members": {"C": {"topics": ["t0"], **member}}}, text, id=text[:20])
            for member, text in (
                ({"topics": ["t0", 3]}, r"members.C.topics\[1\] is 3"),
                ({"owned": {"t0": [0, -1]}}, r"members.C.owned.t0\[1\] is -1: at least 0"),
                ({"owned": {"t0": [2**31]}}, r"members.C.owned.t0\[0\] is 2147483648"),
                ({"owned": 0}, "members.C.owned is 0: a mapping"),
                ({"generation": 2**31}, "members.C.generation is 2147483648: at most 2147483647"),
                ({"priority": 2**31}, "members.C.priority is 2147483648: at most 2147483647"),
                ({"capacity": 0}, "members.C.capacity is 0: at least 1e-09"),
                ({"capacity": -1}, "members.C.capacity is -1: at least 1e-09"),
                ({"capacity": 10**400}, "members.C.capacity is a number of about 401 digits"),
            )
        ),
    ],
)
def test_malformed_groups(assigned: Any, change: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        parse_request(json.dumps({**GROUP, **change}))
    code, [answered], err = assigned({**GROUP, **change})
    assert code == 2
    assert answered["error"] in err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        pytest.param('{"lags": {"t": {"0": NaN}}}', "NaN is not a JSON number", id="NaN"),
        pytest.param('{"lags": {"t": {"0": -Infinity}}}', "-Infinity is not a JSON", id="infinity"),
        pytest.param(
            '{"lags": {"t": {"0": 1e999}}, "topics": {}, "members": {}}', "Infinity", id="9"
        ),
        pytest.param('{"lags": {"t": {"0": %s}}}' % ("9" * 5000), "not JSON", id="5000 digits"),
        pytest.param('{"topics": {"t": 1, "t": 2}}', 'the key "t" twice', id="a key twice"),
        pytest.param('{"topics": {"\\ud800": 1}}', "half of a character", id="surrogate"),
        pytest.param("[" * 100_000, "nested too deeply", id="depth"),
        pytest.param(b'{"topics": {"\xff": 1}}', "not UTF-8: byte 14", id="bytes"),
        pytest.param("\ufeff{}", "not JSON", id="byte order mark"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["table", "json"])
def test_a_bad_line_affects_only_its_own_answer(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    line: str | bytes,
    text: str,
) -> None:
    """These once ended the command with a traceback, and later lines got no answer."""
    path = tmp_path / "groups.jsonl"
    bad = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(bad + b"\n" + json.dumps({**GROUP, "steps": []}).encode())
    assert run(["assign", *options, str(path)]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("assignor: line 1: the group ") or "lags.t.0 is" in err
    assert text in err
    assert err.count("\n") == 1
    assert '{"C0": {"t0": [0, 2]}' in out or "t0: 0, 2" in out


def test_names_in_the_table_are_printed_without_markup_and_escapes(assigned: Any) -> None:
    members = {"[red]x": {"topics": ["[/a]"]}, "[/x]\x1b[2J\n": {"topics": ["[/a]"]}}
    code, out, _ = assigned({"topics": {"[/a]": 4}, "members": members}, options=())
    assert code == 0
    assert "[red]x" in out
    assert "[/x]\\x1b[2J\\n" in out
    assert "[/a]: 0-1" in out or "[/a]: 0, 2" in out


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_of_a_user.py").write_text(
        "import sys\n"
        "class Exits:\n"
        "    name = 'exits'\n"
        "    def assign(self, group):\n"
        "        sys.exit(3)\n"
        "class Told:\n"
        "    name = 'told'\n"
        "    def configure(self, options):\n"
        "        self.options = options\n"
        "    def assign(self, group):\n"
        "        return {group.ids[-1]: {t: range(n) for t, n in group.topics.items()}}\n"
        "    def on_assignment(self, member, owned, generation):\n"
        "        print(self.options, member.id, dict(owned), generation, file=sys.stderr)\n"
    )
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("own")
def test_a_custom_assignor_that_exits_gives_a_one_line_error(assigned: Any) -> None:
    exits = {**GROUP, "steps": [], "assignor": "own_of_a_user:Exits"}
    options = ("--json", "--own", "own_of_a_user:Exits")
    code, answers, err = assigned(exits, {**GROUP, "steps": []}, options=options)
    assert code == 1
    assert answers[0]["error"] == "assignor 'exits' raised SystemExit: 3"
    assert "assignment" in answers[1]
    assert err.count("\n") == 1


@pytest.mark.usefixtures("own")
def test_code_named_only_by_the_input_is_not_imported(
    assigned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "own_of_a_user", raising=False)
    code, [answered], _ = assigned({**GROUP, "steps": [], "assignor": "own_of_a_user:Told"})
    assert code == 2
    assert (
        "is a custom class named only in the input: if you trust it, add --assignors own_of_a_user"
        in (answered["error"])
    )
    assert "own_of_a_user" not in sys.modules


@pytest.mark.usefixtures("own")
def test_a_custom_assignor_gets_its_options_and_is_called_between_steps(assigned: Any) -> None:
    told = {
        **GROUP, "steps": [{}], "assignor": "own_of_a_user:Told",
        "options": {"assignor.told.maxAge": "5"},
    }  # fmt: skip
    options = ("--json", "--chain", "--own", "own_of_a_user:Told")
    code, _, err = assigned(told, options=options)
    assert code == 0
    assert err.splitlines() == [
        "{'maxAge': '5'} C0 {} 5",
        "{'maxAge': '5'} C1 {'t0': (0, 1, 2)} 5",
    ]


def test_none_is_rejected_for_a_group(assigned: Any) -> None:
    code, [answered], _ = assigned({**GROUP, "steps": [], "assignor": "none"})
    assert code == 2
    assert "'none' is not an assignor: alone, it selects Spark's default" in answered["error"]


def test_kafkas_markers_for_no_commit_become_none() -> None:
    offsets = {"0": {"latest": 9, "committed": -1}, "1": {"latest": 9, "committed": -1001}}
    data = {**GROUP, "offsets": {"t0": offsets}}
    data.pop("lags")
    assert parse_request(json.dumps(data)).group.lag_list() == [0, 0, 0]
    offsets["0"]["committed"] = -2
    with pytest.raises(InputError, match=r"offsets.t0.0.committed is -2: at least 0"):
        parse_request(json.dumps(data))


def test_a_misspelt_reset_becomes_earliest_with_a_note(assigned: Any) -> None:
    data = {
        **GROUP,
        "steps": [],
        "offsets": {"t0": {"0": {"latest": 9}}},
        "offset_reset": "latesst",
    }
    data.pop("lags")
    _, [answered], _ = assigned(data)
    assert answered["notes"] == [
        "offset_reset 'latesst' is treated as 'earliest', like every value but 'latest'"
    ]


def test_invalid_json_is_rejected(assigned: Any) -> None:
    code, [answered], _ = assigned("{")
    assert (code, answered["line"]) == (2, 1)
    assert "not JSON" in answered["error"]
    assert run(["assign", "/not/there"]) == 2


def test_the_table(assigned: Any) -> None:
    code, out, _ = assigned({**GROUP, "steps": [{"leave": ["C1"]}]}, options=("--chain",))
    assert code == 0
    assert "100,000 " in out
    assert "t0: 0-2" in out
    assert 'sticky, step 1: {"leave": ["C1"]}' in out
    assert "0 partitions moved" in out


def test_the_table_of_streams_shows_standbys_and_notes(assigned: Any) -> None:
    members = {f"C{i}": {"topics": ["a", "b"], "host": f"h{i}"} for i in range(2)}
    group: dict[str, Any] = {"assignor": "streams", "topics": {"a": 2, "b": 1}, "members": members}
    group["standby_replicas"] = 1
    code, out, _ = assigned(group, options=())
    assert code == 0
    assert "standby" in out
    assert "topic 'b' is short: 1 partition for 2 tasks" in out


def test_the_order_of_keys_does_not_matter() -> None:
    backwards = {k: GROUP[k] for k in reversed(GROUP)}
    backwards["members"] = {k: GROUP["members"][k] for k in ("C1", "C0")}
    one, two = parse_request(json.dumps(GROUP)), parse_request(json.dumps(backwards))
    assert answer(one).to_json() == answer(two).to_json()
    assert len(answer_steps(one)) == 5
