"""Readers of files and folders: checkpoints, tables' logs, logs of batches, jobs, settings.

A folder is one input: its files are joined by a byte that no text has.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge.errors import AssignorError
from checkpoints.folders import CheckpointError
from checkpoints.offset_log import BatchRangeReader, read_checkpoint_folder, read_last_batches
from streaming.audit.all_checks import audit
from streaming.audit.audited_files import read_evidence
from streaming.delta import transactions
from streaming.kafka.java_properties import parse_properties
from streaming.kafka.settings import SettingsError, translate_settings
from streaming.lag.positions import list_checkpoint_positions
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.config.referenced_files import check_files
from streaming.replay.racks_input import read_racks
from streaming.report.query_report import make_report
from tests.lab.fuzz.guard import Kind
from tests.unit.metrics import samples
from tests.unit.streaming.kept_query import kept_query
from tests.unit.streaming.test_audit_logs import CREATED, ONE, TWO, batch
from tests.unit.streaming.test_pipeline_config import GOOD, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BETWEEN = b"\xff"
_MOST_FILES = 40
_SIZES = [{0: 400, 1: 30, 2: 5}, {0: 10, 1: 30, 3: 500}, {0: 1000, 2: 1}]
#: The query of `write_checkpoint`.
QUERY = "d9a5a3a1-0000-4000-8000-000000000001"
_TABLE, _CHECKPOINT, _PLANS = "table", "checkpoint", "plans.jsonl"
#: In memory where the machine has that.
_TEMPORARY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


def joined(files: Mapping[str, bytes]) -> bytes:
    """Make one input of files."""
    return _BETWEEN.join(name.encode() + b"\n" + content for name, content in files.items())


def files_in(data: bytes) -> dict[str, bytes]:
    """Take an input apart: files by their paths below a folder."""
    parts = [part.partition(b"\n") for part in data.split(_BETWEEN)[:_MOST_FILES]]
    named = {name.decode("utf-8", "replace"): content for name, _, content in parts}
    return {name: content for name, content in named.items() if _is_below(name)}


def _is_below(name: str) -> bool:
    steps = name.split("/")
    return all(s not in ("", ".", "..") and len(s) < 100 and "\0" not in s for s in steps)


class InMemory:
    """A folder of some file system, from an input."""

    def __init__(self, files: Mapping[str, bytes], below: str = "") -> None:
        self._files, self._below = files, below
        self.name = below or "fuzzed"

    def names(self, path: str) -> list[str]:
        start = f"{self._at(path)}/".lstrip("/")
        found = {
            f.removeprefix(start).partition("/")[0] for f in self._files if f.startswith(start)
        }
        return sorted(found)

    def read(self, path: str) -> bytes | None:
        return self._files.get(self._at(path))

    def below(self, path: str) -> InMemory:
        return InMemory(self._files, self._at(path))

    def _at(self, path: str) -> str:
        return "/".join(part for part in (self._below, path) if part)


@contextmanager
def _on_disk(data: bytes) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir=_TEMPORARY, prefix="fuzz-"))
    try:
        for name, content in files_in(data).items():
            place = folder / name
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            except OSError:  # a file is above it, or its name is too long: there is no such file
                continue
        yield folder
    finally:
        shutil.rmtree(folder)


def _packed(root: Path, *folders: Path) -> bytes:
    files = [f for folder in folders for f in sorted(folder.rglob("*")) if f.is_file()]
    return joined({str(f.relative_to(root)): f.read_bytes() for f in files})


def _checkpoints(folder: Path) -> list[bytes]:
    checkpoint = kept_query(folder, _SIZES).checkpoint
    newer = {f"offsets/{n}": b'v2\n{}\n0:{"t":{"0":%d}}' % (9 + n) for n in range(3)}
    return [
        _packed(checkpoint, checkpoint),
        joined({"metadata": b'{"id":"q"}', "sources/0/0": b'\0v1\n{"t":{"0":1}}', **newer}),
    ]


def _read_checkpoint(data: bytes) -> None:
    folder = InMemory(files_in(data))
    with suppress(CheckpointError):  # less is read: another error may come first
        read_last_batches(folder)
    checkpoint = read_checkpoint_folder(folder)
    list_checkpoint_positions(checkpoint, None)
    reader = BatchRangeReader(folder)
    for logged in checkpoint.batches[:10]:
        read = reader.read(logged.batch_id)
        known = checkpoint.ranges.get(logged.batch_id)
        assert known is None or read is None or read == known
        offsets = [o for of in logged.ends.values() for ps in of.values() for o in ps.values()]
        assert all(0 <= offset < 2**63 for offset in offsets)


def _tables(folder: Path) -> list[bytes]:
    log = [CREATED, batch(0, {0: (0, 400), 1: (0, 30)}, ONE, maxValues={"offset": 9}),
           batch(1, {0: (400, 410)}, TWO), batch(2, None), batch(2, {1: (30, 60)})]  # fmt: skip
    restore = [{"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": 1}}}]
    moved = [{"add": {"path": "1-0", "size": 1, "dataChange": False}},
             {"remove": {"path": "1-2", "dataChange": True}}]  # fmt: skip
    made = [log, [*log, restore], [*log, moved]]
    query = kept_query(folder, _SIZES)
    return [
        b"%b\xff%b" % (_packed(query.checkpoint.parent, query.checkpoint), joined(_delta(commits)))
        for commits in made
    ]


def _delta(commits: list[list[dict[str, object]]]) -> dict[str, bytes]:
    lines = ["\n".join(map(json.dumps, actions)) for actions in commits]
    log = f"{_TABLE}/_delta_log"
    files = {f"{log}/{n:020}.json": text.encode() for n, text in enumerate(lines)}
    return {**files, f"{log}/{1:020}.crc": b'{"numFiles":1,"tableSizeBytes":10}'}


def _audit(data: bytes) -> None:
    with _on_disk(data) as folder:
        table = str(folder / _TABLE)
        checkpoint = folder / _CHECKPOINT
        result = audit(read_evidence(table, str(checkpoint) if checkpoint.is_dir() else None))
        for finding in result.findings:
            assert finding.cure
            finding.details.encode("utf-8", "surrogateescape")
        transactions.read_table_log(table, ONE)


def _queries(folder: Path) -> list[bytes]:
    query = kept_query(folder, _SIZES)
    packed = _packed(folder, query.checkpoint)
    plans = joined({_PLANS: query.plan_log.read_bytes()})
    lines = [
        samples.text(batch=n, topic="orders", start={"0": n}, end={"0": n + 9}, latest={"0": 99},
                     strategy="sticky", imbalance="0.5", heldBackBy="seconds", query_id=QUERY)
        for n in range(3)
    ]  # fmt: skip
    log = joined({"log.jsonl": "\n".join(lines).encode()})
    return [packed, b"%b\xff%b" % (packed, plans), log, b"%b\xff%b" % (packed, log)]


def _report(data: bytes) -> None:
    """Make the page of a report of whatever is there: checkpoint, plan log, log of metrics."""
    with _on_disk(data) as folder:
        for name, text in files_in(data).items():  # commits that took as long as batches take
            if name.startswith(f"{_CHECKPOINT}/commits/") and (folder / name).is_file():
                os.utime(folder / name, (1_795_262_402, 1_795_262_402 + len(text)))
        places = [str(place) for place in sorted(folder.iterdir())]
        report = make_report(*places)
        report.html.encode()
        str(report).encode("utf-8", "surrogateescape")


def _jobs(_: Path) -> list[bytes]:
    whole = (ROOT / "examples").rglob("*.yaml")
    bombs = [b"a: &a [1]\nb: &b [*a, *a]\nc: [*b, *b]\n", b"<<: {name: x}\n", b"name: !!set {a}\n"]
    return [json.dumps(GOOD).encode(), *(file.read_bytes() for file in whole), *bombs]


def _load(data: bytes) -> None:
    with _on_disk(b"job.yaml\n" + data.replace(_BETWEEN, b"")) as folder:
        loaded = load_job(folder / "job.yaml", environment={"X": "x"})
        if b"python" not in data:  # code of the user's is imported
            check_files(loaded)
        assert load_job(folder / "job.yaml", environment={"X": "x"}).job == loaded.job
        loaded.to_yaml().encode("utf-8", "surrogatepass")


_LOGIN = b"""bootstrap.servers=b:9092
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
ssl.truststore.type=PEM
ssl.truststore.certificates=-----BEGIN CERTIFICATE----- x -----END CERTIFICATE-----
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="u" password="p";
"""


def _settings(data: bytes) -> None:
    settings = translate_settings(parse_properties(data.decode("utf-8", "replace")))
    settings.to_client_config(client_id="x")
    settings.redact("a text")


def _read_racks(data: bytes) -> None:
    with _on_disk(b"racks\n" + data.replace(_BETWEEN, b"")) as folder:
        read_racks(folder / "racks")


def _racks(_: Path) -> list[bytes]:
    given = {"executors": {"h": "a"}, "partitions": {"t": {"0": ["a", "b"]}}}
    return [json.dumps(given).encode(), b"# racks\nh=a\nh\\u0041 : b\n"]


_JSON = ("null", "1e999", "-1", "9223372036854775808", "[", "{", '"t":{"0":', "\\ud800")
_NAMES = ("commits/", "offsets/", "sources/", "\n", "v1", "v2", "v9", *_JSON)
_TXN = ("txn", "appId", "version", "add", "remove", "stats", "numRecords", *_NAMES)
_YAML = (
    "&a ",
    "*a",
    "<<: ",
    "!!python/object:",
    "!!binary ",
    "${X}",
    "../",
    "sources:",
    "0x",
    ".inf",
)

KINDS = (
    Kind("offset-log", _read_checkpoint, (CheckpointError,), _checkpoints, _NAMES),
    Kind("audit", _audit, (AssignorError,), _tables, _TXN, 16_384),
    Kind("report", _report, (AssignorError,), _queries, (*_NAMES, "snapshot"), 32_768),
    Kind("job", _load, (AssignorError,), _jobs, _YAML, 4096),
    Kind("settings", _settings, (SettingsError,), lambda _: [_LOGIN], ("\\u00", "required", "=")),
    Kind("racks", _read_racks, (AssignorError,), _racks, _JSON, 2048),
)
