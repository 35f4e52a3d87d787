"""The planner process, `python -m assignor_bridge.worker`: one for all streams of a driver.

One request a line on stdin, one answer a line on stdout, nothing else on stdout (what a user's
assignor prints goes to stderr); it ends when stdin does. Before a request (`protocol.messages`) are
its number, which begins the answer, too, and the number of its stream. It survives errors: each
becomes an answer.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from assignor_bridge.admission.lag import Memory
from assignor_bridge.assignors.loading import Finder
from assignor_bridge.errors import OptionError, elide, escape_unprintable
from assignor_bridge.limited_batches import limit_batch
from assignor_bridge.options import effective, parse_options
from assignor_bridge.planner.plan import check_names, plan_step
from assignor_bridge.protocol import messages
from assignor_bridge.protocol.columns import pack_tasks, unpack_batch
from assignor_bridge.protocol.messages import (
    AdmitBatch,
    Answer,
    End,
    Ended,
    PlanBatch,
    Planned,
    RestoreState,
    Validate,
)
from checkpoints.state_text import VERSION, decode, decode_or_empty, encode
from checkpoints.sticky_state import StateError

if TYPE_CHECKING:
    from typing import BinaryIO

    from assignor_bridge.options import PlannerOptions


class Worker:
    """Answers the requests of one stream, which begins anew when its options are validated."""

    def __init__(self) -> None:
        self._options: PlannerOptions | None = None
        self._begin(Finder())

    def _begin(self, find: Finder) -> None:
        self._find = find  # the user's own assignors live as long as a run of the stream
        self._memory = Memory()
        self._backlog = 1.0  # of the batch that was admitted last, until it is planned
        self._read = lru_cache(maxsize=1)(decode_or_empty)

    def answer(self, line: bytes) -> Answer:
        """Answer one request, whatever happens."""
        try:
            return self._answer(messages.read_request(line))
        except BaseException as error:  # noqa: BLE001
            return messages.make_failed(error)

    def prepare(self, answer: Answer) -> None:
        """Do between batches what need not be done while Spark waits for a plan."""
        if isinstance(answer, Planned):
            self._read(answer.state)  # the next batch begins with it
        gc.collect()

    def _answer(self, request: messages.Request) -> Answer:
        match request:
            case Validate(options=given):
                options = parse_options(given)
                check_names(options, find := Finder())
                self._options = options
                self._begin(find)
                limits, times = options.limits_batches, options.needs_times
                return messages.Validated(effective(options), VERSION, limits, times)
            case RestoreState(state=state, topics=topics):
                return messages.Restored(_why_not(state, topics))
            case End():
                return Ended()
            case PlanBatch():
                return self._plan(request)
            case AdmitBatch():
                known, _ = self._read(request.state)  # what cannot be used knows nothing
                limited = limit_batch(request, self._validated(), self._memory, known)
                self._memory, self._backlog = limited.memory, limited.backlog
                return limited.answer

    def _validated(self) -> PlannerOptions:
        if self._options is None:
            raise OptionError("a plan was asked for before the options were validated")
        return self._options

    def _plan(self, request: PlanBatch) -> Planned:
        batch = unpack_batch(request, self._validated())
        batch, self._backlog = replace(batch, backlog=self._backlog), 1.0
        state, warning = self._read(request.state)
        outcome = plan_step(batch, state, self._find, warning)
        return Planned(
            outcome.assignor,
            pack_tasks(outcome),
            encode(outcome.state),
            dict(outcome.metrics),
            outcome.reasons,
        )


def _why_not(state: str, topics: list[str]) -> str | None:
    """Return why a stored state cannot be used for a stream of these topics; None if it can."""
    try:
        known = decode(state).topics
    except StateError as error:
        return str(error)
    if known and topics and not set(known) & set(topics):
        others, ours = (escape_unprintable(elide(names)) for names in (known, sorted(topics)))
        return f"the state is of other topics ({others}) than those read now ({ours})"
    return None


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until there are no more requests."""
    workers: defaultdict[bytes, Worker] = defaultdict(Worker)
    for line in requests:
        number, _, rest = line.partition(b" ")
        stream, _, request = rest.partition(b" ")
        worker = workers[stream]
        answer = worker.answer(request)
        answers.write(number.strip() + b" " + messages.write_answer(answer))
        answers.flush()
        if isinstance(answer, Ended):
            del workers[stream]
        worker.prepare(answer)


def _end_with_the_driver(driver: int) -> None:
    """End when the driver was killed: the end of stdin is not seen while a plan is made."""
    while os.getppid() == driver:
        time.sleep(1)
    os._exit(1)


def main() -> None:
    """Serve on stdin and stdout; prints by anybody else go to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, which ends us
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    gc.freeze()  # imports live for ever: the collector need not look at them
    gc.disable()  # see `Worker.prepare`
    threading.Thread(target=_end_with_the_driver, args=(os.getppid(),), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # the driver is gone
        serve(sys.stdin.buffer, answers)
    sys.stderr.flush()
    os._exit(0)  # threads of a user's assignor must not keep the process


if __name__ == "__main__":
    main()
