"""A planner process for tests: the real worker behind a relay that misbehaves once, as told.

Usage: planner_proxy.py MODE RECORD_FILE [arguments of Spark, ignored]. Requests and answers are
appended to the record file; the second snapshot that the file sees is answered wrongly, the others
honestly. The mode `rows` keeps quiet about packed columns, as a planner that does not know them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any


def spoilt(mode: str, plan: dict[str, Any]) -> str:
    """Give the wrong answer that the mode asks for."""
    ranges = plan["tasks"][0]["ranges"]
    if mode == "garbage":
        return "this is not JSON"
    if mode == "raises":
        return json.dumps({"error": "boom", "traceback": "Traceback: in the planner"})
    if mode == "drops":
        every = [offsets for task in plan["tasks"] for offsets in task["ranges"]]
        longest = max(every, key=lambda offsets: offsets["end"] - offsets["start"])
        longest["end"] -= 1  # and is not empty then, which would be another mistake
    elif mode == "doubles":
        plan["tasks"].append(plan["tasks"][0])
    elif mode == "invents":
        ranges.append({"topic": "never-heard-of", "partition": 0, "start": 0, "end": 5})
    elif mode == "stranger":
        plan["tasks"][0]["executor"] = "no-such-executor"
    elif mode == "no-ranges":
        plan["tasks"].append({"executor": None, "slot": 0, "ranges": []})
    return json.dumps(plan)


def main() -> None:
    """Relay until standard input ends."""
    mode, record = sys.argv[1], Path(sys.argv[2])
    worker = subprocess.Popen(
        [sys.executable, "-m", "assignor_bridge.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin
    assert worker.stdout
    for line in sys.stdin:
        note(record, {"pid": os.getpid(), "request": json.loads(line)})
        wrong = len(snapshots(record)) == 2 and "ranges" in json.loads(line)
        if wrong and mode == "die":
            sys.exit("the planner fell over")
        if wrong and mode == "late":
            threading.Event().wait()
        worker.stdin.write(line)
        worker.stdin.flush()
        answer = worker.stdout.readline()
        if mode == "rows":
            answer = json.dumps({k: v for k, v in json.loads(answer).items() if k != "packed"})
        note(record, {"pid": os.getpid(), "answer": json.loads(answer)})
        print(spoilt(mode, json.loads(answer)) if wrong else answer.rstrip("\n"), flush=True)
    worker.stdin.close()
    worker.wait()


def note(record: Path, entry: dict[str, Any]) -> None:
    """Append a line to the record."""
    with record.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def entries(record: Path) -> list[dict[str, Any]]:
    """Read back what was recorded: process ids with requests and honest answers, in order."""
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]


def snapshots(record: Path) -> list[dict[str, Any]]:
    """Give the requests for plans, in order."""
    requests = [e["request"] for e in entries(record) if "request" in e]
    return [request for request in requests if "ranges" in request]


def plans(record: Path) -> list[dict[str, Any]]:
    """Give the honest answers that are plans, in order."""
    answers = [e["answer"] for e in entries(record) if "answer" in e]
    return [answer for answer in answers if "tasks" in answer]


if __name__ == "__main__":
    main()
