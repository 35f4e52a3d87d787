"""How much memory the planner process takes, by partitions and streams.

The process alone, started as Java starts it, with requests on its stdin as a driver writes them:
each stream has topics of its own, and plans three batches, in turns with the other streams; all
but the first come with the state and a report for each piece, as in a running query. `partitions`
are those of each stream. Then the process has nothing to do, and Linux says what it holds
(`/proc/PID/smaps_rollup`): `uss_mb` is what no other process shares, and would be free without it;
`rss_mb` is what is resident, code of libraries that other Pythons share included; `peak_rss_mb`
was the most so far. The row without streams is a process that has only started. No time is
measured, so other work on the machine does no harm.

`ASSIGNOR_BENCH_SCALE=0.1` leaves the largest out, and writes nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.lab.benchmarks.report import ROOT, write_report
from tests.lab.benchmarks.test_bench_planner import request
from tests.lab.benchmarks.turns import SCALE
from tests.support.packed import pack_snapshot, unpack_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

#: Partitions of a stream, and executors.
SIZES = {10: 2, 100: 5, 1_000: 50, 10_000: 500, 100_000: 2_000}
STREAMS, BATCHES = (1, 10, 50), 3
#: How Interpreter.java starts it.
_RUN = "import runpy; runpy.run_module('assignor_bridge.worker', run_name='__main__')"
_MEASURES = {"uss_mb": ("Private_Clean", "Private_Dirty"), "rss_mb": ("Rss",)}


class Planner:
    """A planner process, asked one request after the other."""

    def __init__(self) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUN], cwd=ROOT, env=kept | {"OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._asked = 0

    def __enter__(self) -> Planner:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:  # closes its stdin, which ends it
            pass
        assert self._process.returncode == 0

    def ask(self, stream: int, message: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._asked += 1
        line = b"%d %d " % (self._asked, stream) + orjson.dumps(message) + b"\n"
        self._process.stdin.write(line)
        self._process.stdin.flush()
        number, answer = self._process.stdout.readline().split(b" ", 1)
        assert int(number) == self._asked
        found: dict[str, Any] = orjson.loads(answer)
        assert found["type"] != "failed", found
        return found

    def memory(self) -> dict[str, float]:
        """What it holds, in MB, once it has done what it does between batches."""
        self.ask(-1, {"type": "validate", "options": {}})
        self.ask(-1, {"type": "end"})
        self.ask(-1, {"type": "end"})
        folder = Path("/proc", str(self._process.pid))
        told = (folder / "smaps_rollup").read_text() + (folder / "status").read_text()
        kb = {name: int(number) for name, number in re.findall(r"^(\w+):\s+(\d+) kB", told, re.M)}
        found = {name: sum(kb[part] for part in of) / 1024 for name, of in _MEASURES.items()}
        found["peak_rss_mb"] = kb["VmHWM"] / 1024
        return {name: round(mb, 1) for name, mb in found.items()}


def batches(partitions: int, executors: int) -> Iterator[tuple[dict[str, Any], bool]]:
    """Requests of one stream's batches without their state, and whether they need one."""
    first = orjson.loads(request(partitions, executors, None))
    yield pack_snapshot(first), False
    with Planner() as planner:
        planner.ask(1, {"type": "validate", "options": first["options"]})
        plan = planner.ask(1, message(pack_snapshot(first), 1, None))
    plan["tasks"] = unpack_tasks(plan["tasks"])
    renamed = orjson.loads(orjson.dumps(plan).replace(b'"s1-topic-', b'"topic-'))
    steady = pack_snapshot(orjson.loads(request(partitions, executors, renamed)))
    for _ in range(BATCHES - 1):
        yield steady, True


def message(batch: dict[str, Any], stream: int, state: str | None) -> dict[str, Any]:
    """The request of a stream whose topics are its own."""
    text = orjson.dumps({k: v for k, v in batch.items() if k != "options"} | {"state": None})
    own = orjson.loads(text.replace(b'"topic-', b'"s%d-topic-' % stream))
    return {"type": "plan", **own, "state": state}


def held(streams: int, each: list[tuple[dict[str, Any], bool]]) -> dict[str, Any]:
    """Plan all batches of so many streams; what the process holds then."""
    states: dict[int, str] = {}
    with Planner() as planner:
        for stream in range(1, streams + 1):
            planner.ask(stream, {"type": "validate", "options": each[0][0]["options"]})
        for batch, needs_state in each:
            for stream in range(1, streams + 1):
                state = states[stream] if needs_state else None
                answer = planner.ask(stream, message(batch, stream, state))
                states[stream] = answer["state"]
        return planner.memory() | {"state_kb": sum(map(len, states.values())) // streams // 1024}


def test_planner_memory() -> None:
    with Planner() as planner:
        rows: list[dict[str, Any]] = [
            {"partitions": 0, "streams": 0, **planner.memory(), "state_kb": ""}
        ]
    for partitions, executors in SIZES.items():
        if SCALE < 1 and partitions > 1_000:
            continue
        each = list(batches(partitions, executors))
        for streams in STREAMS:
            rows.append({"partitions": partitions, "streams": streams, **held(streams, each)})
            print(rows[-1], flush=True)
    if SCALE == 1:
        write_report(
            "planner_memory", title="Memory of the planner process", rows=rows,
            notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_planner_memory.py)",
        )  # fmt: skip
    of = {(row["partitions"], row["streams"]): row["rss_mb"] for row in rows}
    assert of[1_000, 1] < 1.5 * of[0, 0], of
