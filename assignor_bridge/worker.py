"""The planner process, `python -m assignor_bridge.worker`: one for all streams of a driver.

It reads one request per line from stdin and writes one answer per line to stdout, until stdin ends.
A request (`protocol.messages`) is preceded by its number and the stream's number, an answer by the
request's number. An error becomes an answer. Custom assignors print to stderr.
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

from assignor_bridge.admission.batch_inputs import Memory
from assignor_bridge.assignors.custom import Finder
from assignor_bridge.errors import OptionError, elide, escape_unprintable
from assignor_bridge.limited_batches import limit_batch
from assignor_bridge.options import list_effective_options, parse_options
from assignor_bridge.planner.plan import check_assignors, plan_step
from assignor_bridge.protocol import messages
from assignor_bridge.protocol.columns import pack_tasks, unpack_batch
from assignor_bridge.protocol.messages import (
    AdmitBatch,
    Answer,
    EndStream,
    PlanBatch,
    Planned,
    RestoreState,
    StreamEnded,
    Validate,
)
from checkpoints.state_text import VERSION, decode, decode_or_empty, encode
from checkpoints.sticky_state import StateError

if TYPE_CHECKING:
    from typing import BinaryIO

    from assignor_bridge.options import PlannerOptions


class Worker:
    """Answers one stream's requests; each successful `Validate` resets its memory."""

    def __init__(self) -> None:
        self._options: PlannerOptions | None = None
        self._start_stream(Finder())

    def _start_stream(self, find_assignor: Finder) -> None:
        self._find_assignor = find_assignor  # keeps custom assignors for one run of the stream
        self._memory = Memory()
        self._backlog_ratio = 1.0  # of the last admitted batch; its plan resets this to 1
        self._decode_state = lru_cache(maxsize=1)(decode_or_empty)

    def answer(self, line: bytes) -> Answer:
        """Return the answer to one request; never raise an error."""
        try:
            return self._answer(messages.decode_request(line))
        except BaseException as error:  # noqa: BLE001
            return messages.make_failed(error)

    def prepare(self, answer: Answer) -> None:
        """Prepare the next request after an answer: decode a plan's state, collect garbage."""
        if isinstance(answer, Planned):
            self._decode_state(answer.state)  # the next batch sends it; cached until then
        gc.collect()

    def _answer(self, request: messages.Request) -> Answer:
        match request:
            case Validate(options=option_texts):
                options = parse_options(option_texts)
                check_assignors(options, find_assignor := Finder())
                self._options = options
                self._start_stream(find_assignor)
                effective_options = list_effective_options(options)
                return messages.Validated(
                    effective_options, VERSION, options.limits_batches, options.needs_times
                )
            case RestoreState(state=text, topics=topics):
                return messages.Restored(_explain_unusable_state(text, topics))
            case EndStream():
                return StreamEnded()
            case PlanBatch():
                return self._plan(request)
            case AdmitBatch():
                state, _ = self._decode_state(request.state)  # empty if it is unusable
                limit_result = limit_batch(request, self._require_options(), self._memory, state)
                self._memory = limit_result.memory
                self._backlog_ratio = limit_result.backlog_ratio
                return limit_result.answer

    def _require_options(self) -> PlannerOptions:
        if self._options is None:
            raise OptionError("a batch was sent before the options were validated")
        return self._options

    def _plan(self, request: PlanBatch) -> Planned:
        batch = unpack_batch(request, self._require_options())
        batch, self._backlog_ratio = replace(batch, backlog_ratio=self._backlog_ratio), 1.0
        state, warning = self._decode_state(request.state)
        planned_batch = plan_step(batch, state, self._find_assignor, warning)
        return Planned(
            planned_batch.assignor,
            pack_tasks(planned_batch),
            encode(planned_batch.state),
            dict(planned_batch.metrics),
            planned_batch.reasons,
        )


def _explain_unusable_state(state: str, topics: list[str]) -> str | None:
    """Return why a stored state is unusable for a stream of these topics, or None."""
    try:
        state_topics = decode(state).topics
    except StateError as error:
        return str(error)
    if state_topics and topics and not set(state_topics) & set(topics):
        old_topics, current_topics = (
            escape_unprintable(elide(names)) for names in (state_topics, sorted(topics))
        )
        return f"the state belongs to topics {old_topics}; the stream now reads {current_topics}"
    return None


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer all requests until the input ends."""
    workers: defaultdict[bytes, Worker] = defaultdict(Worker)
    for line in requests:
        request_number, _, stream_and_request = line.partition(b" ")
        stream_id, _, request = stream_and_request.partition(b" ")
        worker = workers[stream_id]
        answer = worker.answer(request)
        answers.write(request_number.strip() + b" " + messages.encode_answer(answer))
        answers.flush()
        if isinstance(answer, StreamEnded):
            del workers[stream_id]
        worker.prepare(answer)


def _exit_with_driver(driver_pid: int) -> None:
    """Exit if the driver is killed; during a plan, the end of stdin would go unnoticed."""
    while os.getppid() == driver_pid:
        time.sleep(1)
    os._exit(1)


def main() -> None:
    """Serve on stdin and stdout; redirect all other output to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the driver, and then this process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    gc.freeze()  # imported objects are permanent: the collector can skip them
    gc.disable()  # see `Worker.prepare`
    threading.Thread(target=_exit_with_driver, args=(os.getppid(),), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # the driver has ended
        serve(sys.stdin.buffer, answers)
    sys.stderr.flush()
    os._exit(0)  # threads of custom assignors must not delay the exit


if __name__ == "__main__":
    main()
