"""The planner process, `python -m assignor_bridge.worker`: the Java layer starts one a stream.

One JSON request a line on stdin, one JSON answer a line on stdout, nothing else on stdout (what a
user's assignor prints goes to stderr); it ends when stdin does. It survives errors: each becomes
an answer. Requests are snapshots, `{"validate": {options}}` at the start of a query, and
`{"restore": state, "topics": […]}` before its first plan.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assignor_bridge.assignors.loading import Finder
from assignor_bridge.options import effective, parse_options
from assignor_bridge.planner.plan import check_names, plan_batch
from assignor_bridge.restoring import restore
from assignor_bridge.wire import answer, dump, failure, parse_request, read_batch, read_options
from checkpoints.sticky_state import VERSION, StateError, decode

if TYPE_CHECKING:
    from typing import BinaryIO

#: The user's own assignors live as long as the process, which is as long as a run of the stream.
_find = Finder()


@dataclass
class Response:
    """The answer to one request, and what is left to do when it is out."""

    line: bytes
    #: What the answer was made from: to let it go takes as long as a tenth of the planning.
    request: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)


def handle(line: bytes) -> bytes:
    """Answer one request: a plan, the effective options or an error."""
    return respond(line).line


def respond(line: bytes) -> Response:
    """Answer one request; `prepare` for the next one afterwards."""
    try:
        request = parse_request(line)
        answer = _reply(request)
        return Response(dump(answer), request, answer)
    except BaseException as error:  # noqa: BLE001  (whatever happens is an answer)
        return Response(dump(failure(error)))


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    if "validate" in request:
        options = parse_options(read_options(request["validate"]))
        check_names(options, _find)
        return {
            "ok": True, "options": effective(options), "stateVersion": VERSION, "packed": True,
        }  # fmt: skip
    if "restore" in request:
        return restore(request["restore"], request.get("topics"))
    batch, state = read_batch(request)
    return answer(plan_batch(batch, state, _find))


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until there are no more requests."""
    for line in requests:
        if line.strip():
            response = respond(line)
            answers.write(response.line)
            answers.flush()
            prepare(response)


def prepare(response: Response) -> None:
    """Do between batches what need not be done while Spark waits for a plan."""
    state = response.answer.get("state")
    if state is not None:
        with contextlib.suppress(StateError):  # then the next batch says so
            decode(state)  # the next batch begins with it: `decode` knows it by then
    response.request.clear()
    response.answer.clear()
    gc.collect()


def main() -> None:
    """Serve on stdin and stdout; prints by anybody else go to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, which ends us
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    gc.freeze()  # imports live for ever: the collector need not look at them
    gc.disable()  # see `serve`
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:
        os._exit(0)  # the driver is gone; nothing is left to flush


if __name__ == "__main__":
    main()
