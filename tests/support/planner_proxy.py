"""Run the real planner behind a relay that changes one answer.

Usage: planner_proxy.py MODE RECORD_FILE [arguments of Spark, ignored]. The relay appends requests
and original answers to the record file. It changes the answer to the second snapshot in the file.
With a mode that begins with `admit-`, it changes the second answer about a batch's limits; with
`both-`, the second answer of either kind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.packed import pack_task_rows, unpack_rows, unpack_tasks


def spoil_answer(mode: str, plan: dict[str, Any]) -> str:
    if mode == "garbage":
        return "this is not JSON"
    if mode == "raises":
        traceback = "Traceback: in the planner"
        answer = {"type": "failed", "error": "boom", "misuse": False, "traceback": traceback}
        return json.dumps(answer)
    if "tasks" not in plan:
        spoil_ends(mode, plan["ranges"])
    elif mode == "lacks":
        del plan["tasks"]["slot"]
    elif mode == "short":
        plan["tasks"]["end"] = ""
    else:
        tasks = unpack_tasks(plan["tasks"])
        spoil(mode, tasks)
        plan["tasks"] = pack_task_rows(tasks)
    return json.dumps(plan)


def spoil(mode: str, tasks: list[dict[str, Any]]) -> None:
    if mode == "drops":
        offset_ranges = [offsets for task in tasks for offsets in task["ranges"]]
        longest = max(offset_ranges, key=lambda offsets: offsets["end"] - offsets["start"])
        longest["end"] -= 1  # the longest, because an empty range would be another fault
    elif mode == "doubles":
        tasks.append(tasks[0])
    elif mode == "invents":
        tasks[0]["ranges"].append({"topic": "never-heard-of", "partition": 0, "start": 0, "end": 5})
    elif mode == "stranger":
        tasks[0]["executor"] = "no-such-executor"
    elif mode in {"unsorted-tail", "tail-slot"}:
        tasks += [
            cut_tail(tasks, 1.0, -1),
            cut_tail(tasks, 2.0, -1) if mode == "unsorted-tail" else cut_tail(tasks, 0.5, 3),
        ]
    elif mode == "no-ranges":
        tasks.append({"executor": None, "slot": 0, "ranges": []})


def cut_tail(tasks: list[dict[str, Any]], seconds: float, slot: int) -> dict[str, Any]:
    """Cut the last offset off the longest range; return a tail task that reads it."""
    offset_ranges = [offsets for task in tasks for offsets in task["ranges"]]
    longest = max(offset_ranges, key=lambda offsets: offsets["end"] - offsets["start"])
    longest["end"] -= 1
    tail = {"seconds": seconds, "executors": []}
    last = longest | {"start": longest["end"], "end": longest["end"] + 1}
    return {"executor": None, "slot": slot, "ranges": [last], "tail": tail}


def spoil_ends(mode: str, ranges: dict[str, Any]) -> None:
    """Change a batch's end offsets according to the mode."""
    start, end = (np.frombuffer(b64decode(ranges[name]), "<i8").copy() for name in ("start", "end"))
    if mode == "beyond":
        end += 1000
    elif mode == "backwards":
        end[0] = start[0] - 1
    elif mode == "nothing":
        end = start
    elif mode == "short":
        end = end[1:]
    ranges["end"] = b64encode(end.tobytes()).decode()


def main() -> None:
    mode, record = sys.argv[1], Path(sys.argv[2])
    kinds = {"admit": ("admit",), "both": ("admit", "plan")}.get(mode.partition("-")[0], ("plan",))
    mode = mode.removeprefix("admit-").removeprefix("both-")
    if mode in {"banner", "number", "prefix"}:
        text = "3 sites were found" if mode == "number" else "Welcome to this Python!"
        print(text, flush=True, end="" if mode == "prefix" else "\n")
    worker = subprocess.Popen(
        [sys.executable, "-m", "assignor_bridge.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin
    assert worker.stdout
    for line in sys.stdin:
        number, stream, request = line.split(" ", 2)
        message = json.loads(request)
        append_entry(record, {"pid": os.getpid(), "stream": stream, "request": message})
        kind = message["type"]
        wrong = kind in kinds and len(read_requests(record, kind)) == 2
        if wrong and mode == "die":
            sys.exit("the planner fell over")
        if wrong and mode == "late":
            threading.Event().wait()
        worker.stdin.write(line)
        worker.stdin.flush()
        answer = json.loads(worker.stdout.readline().removeprefix(f"{number} "))
        append_entry(record, {"pid": os.getpid(), "answer": answer})
        if wrong and mode == "stale":
            number = "0"
        print(number, spoil_answer(mode, answer) if wrong else json.dumps(answer), flush=True)
    worker.stdin.close()
    worker.wait()


def append_entry(record: Path, entry: dict[str, Any]) -> None:
    with record.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def read_entries(record: Path) -> list[dict[str, Any]]:
    """Return the recorded process ids with requests and original answers, in order."""
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]


def read_requests(record: Path, kind: str = "plan") -> list[dict[str, Any]]:
    """Return the requests for plans, or those of another kind."""
    all_requests = [e["request"] for e in read_entries(record) if "request" in e]
    return [request for request in all_requests if request["type"] == kind]


def read_answers(record: Path) -> list[dict[str, Any]]:
    all_answers = [e["answer"] for e in read_entries(record) if "answer" in e]
    return [answer for answer in all_answers if answer["type"] == "planned"]


def read_snapshots(record: Path) -> list[dict[str, Any]]:
    """Return the requests for plans, with rows instead of columns."""
    return [
        {
            "state": None,
            **r,
            "ranges": unpack_rows(r["ranges"]),
            "observed": unpack_rows(r["observed"]),
        }
        for r in read_requests(record)
    ]


def read_plans(record: Path) -> list[dict[str, Any]]:
    """Return the original answers that are plans, with rows instead of columns."""
    return [{**answer, "tasks": unpack_tasks(answer["tasks"])} for answer in read_answers(record)]


if __name__ == "__main__":
    main()
