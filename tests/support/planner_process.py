"""Call the planner with Java's messages, without a process, and return plans as rows."""

from __future__ import annotations

import json
from typing import Any

from assignor_bridge.protocol.messages import encode_answer
from assignor_bridge.worker import Worker
from tests.support.packed import pack_snapshot, unpack_tasks


def encode_request(snapshot: dict[str, Any]) -> bytes:
    """Return the request for a plan, with rows packed as columns."""
    request = {name: value for name, value in snapshot.items() if name != "options"}
    if isinstance(request["ranges"], list):
        request = pack_snapshot(request)
    return json.dumps({"type": "plan", **request}).encode()


def send_request(request: Any, worker: Worker | None = None) -> dict[str, Any]:
    """Return the answer to a request; check that it is one line."""
    line = request if isinstance(request, bytes) else json.dumps(request).encode()
    answer = encode_answer((worker or Worker()).answer(line))
    assert answer.endswith(b"\n")
    assert answer.count(b"\n") == 1
    return json.loads(answer)


def plan(snapshot: dict[str, Any], worker: Worker | None = None) -> dict[str, Any]:
    """Validate the options of a snapshot, plan it, and return the answer."""
    worker = worker or Worker()
    options = {name: str(value) for name, value in (snapshot.get("options") or {}).items()}
    valid = send_request({"type": "validate", "options": options}, worker)
    if valid["type"] == "failed":
        return valid
    answer = send_request(encode_request(snapshot), worker)
    if "tasks" in answer:
        answer["tasks"] = unpack_tasks(answer["tasks"])
    return answer
