"""Readers of single texts: states, user data, requests, snapshots, metrics, Spark's UI, names."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from assignor_bridge.errors import AssignorError
from assignor_bridge.planner.plan import plan_batch
from assignor_bridge.worker import serve
from checkpoints.state_text import MAGIC, compute_checksum, decode, encode
from checkpoints.sticky_state import StateError
from checkpoints.user_data import decode_claim, decode_priority, encode_claim
from streaming.cli.output import print_lines, print_table
from streaming.human_json.group_json import answer_steps
from streaming.human_json.group_json import parse_request as read_group
from streaming.human_json.json_input import parse_json
from streaming.human_json.snapshots import parse_snapshot, plan_to_json
from streaming.lag.lag_records import Row
from streaming.lag.lag_table import format_table
from streaming.lag.positions import Position
from streaming.observe.scrape import parse_query_metrics
from streaming.observe.spark_ui import SparkUi, choose_query
from streaming.observe.web import Address, WebError
from streaming.report.screen import LiveFigures, draw_frame
from tests.lab.fuzz.guard import Kind
from tests.support.packed import pack_snapshot
from tests.unit.streaming.kept_query import kept_query
from tests.unit.streaming.served import APP, RECORDED
from tests.unit.streaming.test_top import exposition
from tests.unit.test_worker import SNAPSHOT

if TYPE_CHECKING:
    from pathlib import Path

_SIZES = [{0: 400, 1: 30, 2: 5}, {0: 10, 1: 30, 3: 500}, {0: 1000, 2: 1}]
_ENVELOPE = 8
_OWN_CLASS = re.compile(rb'"assignor"\s*:\s*"[^"]*:')


def states(folder: Path) -> list[str]:
    """Write states as the planner does."""
    kept = kept_query(folder, _SIZES)
    files = sorted((kept.checkpoint / "sources/0/assignments").iterdir())
    return [file.read_text() for file in files]


def _bodies(folder: Path) -> list[bytes]:
    texts = states(folder)
    bodies = [zlib.decompress(base64.b64decode(text)[_ENVELOPE:]) for text in texts]
    apart = [
        b"\3%b\xff%b" % (b[4 : (n := 4 + int.from_bytes(b[:4], "big"))], b[n:]) for b in bodies
    ]
    return [*apart, b"\0" + texts[0].encode()]


def _read_state(data: bytes) -> None:
    """Read a state, and go on from it.

    A first byte that is a version stands for the envelope, 0xff for the length of the header.
    """
    version, body = data[:1], data[1:]
    if version in (b"\2", b"\3"):
        header, _, rest = body.partition(b"\xff")
        body = zlib.compress(len(header).to_bytes(4, "big") + header + rest, 1)
        crc = compute_checksum(body, version[0]).to_bytes(4, "big")
        text = base64.b64encode(MAGIC + version + crc + body).decode()
    else:
        text = body.decode("utf-8", "replace")
    state = decode(text)
    state.map_last_executors()
    again = encode(decode(encode(state)))
    assert again == encode(decode(again)), "what is written is not read as the same"
    outcome = plan_batch(*parse_snapshot({**SNAPSHOT, "state": text}))
    assert not any("corrupt" in reason for reason in outcome.reasons)


def _claims(_: Path) -> list[bytes]:
    owned = {"orders": (0, 1, 5), "t": (2**31 - 1,), "é": ()}
    return [encode_claim(owned, 7), encode_claim(owned, None), encode_claim({}, -1)]


def _read_claim(data: bytes) -> None:
    claim = decode_claim(data)
    decode_priority(data)
    assert decode_claim(encode_claim(claim.owned, claim.generation)) == claim


_GROUP: dict[str, Any] = {
    "assignor": "sticky",
    "topics": {"orders": 4, "t": 2},
    "members": {
        "a": {"topics": ["orders"], "owned": {"orders": [0, 1]}, "generation": 3, "rack": "x"},
        "b": {"topics": ["orders", "t"]},
    },
    "offsets": {"orders": {"0": {"latest": 90, "committed": 10}}},
    "partition_racks": {"orders": {"0": ["x"]}},
    "steps": [{"leave": ["a"]}, {"join": {"c": {"topics": ["t"]}}}],
}
_ASSIGNORS = ("range", "cooperative-sticky", "uniform", "lag-aware", "failover", "streams")


def _groups(_: Path) -> list[bytes]:
    claim = base64.b64encode(encode_claim({"orders": (0, 1)}, 3)).decode()
    member = {"topics": ["orders"], "user_data": claim}
    groups = [{**_GROUP, "assignor": name} for name in _ASSIGNORS]
    groups += [_GROUP, {**_GROUP, "members": {"a": member}}]
    return [json.dumps(group).encode() for group in groups]


def _read_group(data: bytes) -> None:
    for answer in answer_steps(read_group(data)):
        json.dumps(answer.to_json()).encode()


_OPTIONS: tuple[dict[str, str], ...] = (
    {"assignor": "lag-aware-sticky"},
    {"assignor": "sticky", "assignor.targetBatchSeconds": "10"},
    {"assignor": "range", "assignor.fairness": "even", "maxOffsetsPerTrigger": "60"},
    {"assignor": "lag-aware-sticky", "assignor.alignEventTime": "60 seconds"},
)


def _requests(folder: Path) -> list[bytes]:
    plan = {key: value for key, value in pack_snapshot(SNAPSHOT).items() if key != "options"}
    state = states(folder)[-1]
    seeds = []
    for options in _OPTIONS:
        first = [{"type": "validate", "options": options}]
        made = [{"type": "plan", **plan, "state": state}, {"type": "admit", **plan}]
        rest = [*made, {"type": "restore", "state": state, "topics": ["t"]}, {"type": "end"}]
        seeds += [_lines([*first, message]) for message in rest]
    return seeds


def _lines(messages: list[dict[str, Any]]) -> bytes:
    return b"\n".join(b"%d 0 %b" % (n, json.dumps(m).encode()) for n, m in enumerate(messages))


def _serve(data: bytes) -> None:
    """Serve lines: each has one answer, and none of them is a failure of ours."""
    if _OWN_CLASS.search(data):
        return  # code of the user's
    answers = io.BytesIO()
    serve(io.BytesIO(data), answers)
    lines = answers.getvalue().split(b"\n")[:-1]
    assert len(lines) == len(io.BytesIO(data).readlines())
    for line in lines:
        answer = json.loads(line.partition(b" ")[2])
        assert not answer.get("traceback"), answer["traceback"]
        assert "\n" not in answer.get("error", "")


def _snapshots(folder: Path) -> list[bytes]:
    lines = kept_query(folder, _SIZES).plan_log.read_bytes().splitlines()[:-1]
    whole = [json.dumps(SNAPSHOT).encode(), json.dumps(pack_snapshot(SNAPSHOT)).encode()]
    return [*whole, *(json.dumps(json.loads(line)["snapshot"]).encode() for line in lines)]


def _read_snapshot(data: bytes) -> None:
    value = parse_json(data, "the request")
    options = value.get("options") if isinstance(value, dict) else None
    if isinstance(options, dict) and ":" in str(options.get("assignor")):
        return  # code of the user's
    batch, state = parse_snapshot(value)
    made = plan_to_json(plan_batch(batch, state))
    ranges = [r for task in made["tasks"] for r in task["ranges"]]
    size = sum(r["end"] - r["start"] for r in ranges)
    assert size == sum(batch.size.tolist()), "offsets were lost"


def _read_metrics(data: bytes) -> None:
    metrics = parse_query_metrics(data.decode("utf-8", "replace"), None, "here")
    if metrics is not None:
        _draw(LiveFigures(metrics.label, None, metrics))


def _draw(snapshot: LiveFigures) -> None:
    out = io.StringIO()
    Console(file=out, width=120, highlight=False).print(draw_frame(snapshot, 30))
    _check_printed(out.getvalue())


@dataclass(frozen=True)
class _Answers:
    """Stands for the address of a server that gives these answers."""

    answers: dict[str, bytes]
    path: str = ""

    def __str__(self) -> str:
        return "here"

    def __replace__(self, **_: Any) -> _Answers:
        return self

    def get(self, path: str) -> bytes:
        found = self.answers.get(f"{self.path}{path}".partition("?")[0])
        if found is None:
            error = WebError("not found")
            error.status = 404
            raise error
        return found


def _uis(_: Path) -> list[bytes]:
    short = f"/api/v1/applications/{APP}"
    kept = {k.partition("?")[0].replace(short, ""): v for k, v in RECORDED.items()}
    return [b"\xff".join(f"{path}\n{json.dumps(v)}".encode() for path, v in kept.items())]


def _read_ui(data: bytes) -> None:
    parts = (part.partition(b"\n") for part in data.split(b"\xff"))
    root = "/api/v1/applications"
    answers = {path.decode("utf-8", "replace"): text for path, _, text in parts}
    listed = answers.get(root, b"")
    whole = {f"{root}/{APP}{path}": text for path, text in answers.items()}
    ui = SparkUi(_Answers({**whole, root: listed}))  # type: ignore[arg-type]
    batches = choose_query(ui.fetch_batches(), None, "here")
    _draw(LiveFigures(batches[-1].label, ui.fetch_run(batches)))


def _names(_: Path) -> list[bytes]:
    return [
        b"orders",
        "t\x1b[2J\x1b]0;x\x07[/red]\u202e".encode(),
        b"<script>'\"&amp;",
        b"\xff\x00",
    ]


def _show_name(data: bytes) -> None:
    """Print a name of others in tables and lines: it is shown, and does nothing."""
    name = data.decode("utf-8", "surrogateescape")
    printed = [format_table([Row(Position(name, name, 0, offset=1))])]
    printed += [_captured(name)]
    for text in printed:
        _check_printed(text)


def _captured(name: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_lines([name])
        print_table(["TOPIC", "N"], [(name, "1")], title=name)
    return out.getvalue()


def _check_printed(text: str) -> None:
    text.encode()
    assert all(c == "\n" or c.isprintable() for c in text), "a terminal would obey it"


def _read_address(data: bytes) -> None:
    address = Address.parse(data.decode("utf-8", "surrogateescape"))
    again = Address.parse(str(address))
    assert (again.host_port, again.path) == (address.host_port, address.path)
    _check_printed(str(address))


def _addresses(_: Path) -> list[bytes]:
    return [b"http://localhost:4040/history/app-1", b"[::1]:99", b"https://u:p@h/proxy/", b":x"]


_JSON = (
    "null", "true", "1e999", "-1", "9223372036854775808", "2147483648", "[]", "{}", "1e-320",
    '"\\ud800"', '"AAAAAAAAAIA="', '"/////////38="', '"AAAAAAAA+H8="', '"/////w=="', '""',
)  # fmt: skip

KINDS = (
    Kind("state", _read_state, (StateError,), _bodies, ("generation", "paces", *_JSON)),
    Kind("user-data", _read_claim, (), _claims),
    Kind("group", _read_group, (AssignorError,), _groups, ("user_data", "lags", *_JSON)),
    Kind("request", _serve, (), _requests, ("allocation", "racks", "times", *_JSON), 16_384),
    Kind("snapshot", _read_snapshot, (AssignorError,), _snapshots, ("racks", "allocation", *_JSON)),
    Kind("metrics", _read_metrics, (AssignorError,),
         lambda _: [exposition("orders").encode()], ("NaN", "+Inf", "# HELP", "1e308"), 16_384),
    Kind("ui", _read_ui, (AssignorError,), _uis, ("attemptId", "status", *_JSON), 32_768),
    Kind("names", _show_name, (), _names, ("\\x1b[", "[/]", "[red]", "\\r")),
    Kind("address", _read_address, (AssignorError,), _addresses, ("http://", "%00", "@", "[::")),
)  # fmt: skip
