"""The audit has no findings in the Delta log of a healthy job, and finds every lost file."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streaming.audit.all_checks import Audit, audit
from streaming.audit.audited_files import read_evidence
from tests.support.delta_log import DeltaLog
from tests.support.trials import trials
from tests.unit.streaming.checkpoints import write_checkpoint

QUERY = "d9a5a3a1-0000-4000-8000-000000000001"
#: Rows per task of a write; filters, tombstones, and aborted transactions make tasks empty.
rows_of_tasks = st.lists(st.integers(0, 3), max_size=4)
#: A stateful batch may read no offsets.
offsets = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("append"), rows_of_tasks, offsets),
    st.tuples(st.just("stream"), rows_of_tasks, offsets),
    st.tuples(st.just("merge"), st.integers(0, 3), st.integers(0, 2), offsets),
    st.sampled_from([("optimize",), ("backfill",), ("restore",)]),
    st.tuples(
        st.just("commit_maintenance"),
        st.sampled_from([
            "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UPGRADE PROTOCOL", "CLUSTER BY",
        ]),
    ),
)  # fmt: skip


def play(log: DeltaLog, step: Any) -> None:
    match step:
        case ("merge", rows, rewritten, of_offsets):
            log.merge(rows, rewritten=rewritten, offsets=of_offsets)
        case (name, *arguments):
            getattr(log, name)(*arguments)


def audit_log(log: DeltaLog) -> Audit:
    checkpoint = log.folder.parent / "checkpoint"
    if not checkpoint.exists():
        write_checkpoint(checkpoint, [{"t": {0: end}} for end in log.ends], begin={"t": {0: 0}})
    return audit(read_evidence(str(log.folder), str(checkpoint)))


@trials(60)
@given(st.lists(steps, max_size=8), rows_of_tasks, st.booleans(), st.booleans(), st.booleans())
def test_a_healthy_log_has_no_finding(
    played: list[Any], last: list[int], has_statistics: bool, is_partitioned: bool, is_upsert: bool
):
    with tempfile.TemporaryDirectory() as folder:
        log = DeltaLog(
            Path(folder) / "table", QUERY, has_statistics, is_partitioned,
            "upsert" if is_upsert else "append",
        )  # fmt: skip
        for step in [*played, ("append", last, 5)]:
            play(log, step)
        assert audit_log(log).findings == []


@given(rows_of_tasks.filter(any), st.booleans(), st.booleans(), st.data())
def test_a_file_that_a_batch_lost_is_a_finding(
    of_tasks: list[int], has_statistics: bool, is_stream: bool, data: Any
):
    """Without Delta's checksums, because other engines do not write them."""
    with tempfile.TemporaryDirectory() as folder:
        log = DeltaLog(Path(folder) / "table", QUERY, has_statistics)
        (log.stream if is_stream else log.append)(of_tasks)
        for path in (log.folder / "_delta_log").glob("*.crc"):
            path.unlink()
        commit = log.folder / "_delta_log" / f"{log.version:020}.json"
        lines = commit.read_text().splitlines()
        lines.remove(data.draw(st.sampled_from([line for line in lines if '"add"' in line])))
        commit.write_text("\n".join(lines))
        assert [finding.kind for finding in audit_log(log).findings] == ["count-mismatch"]
        assert json.loads(lines[0])["commitInfo"]["operationMetrics"]
