"""The JSON contract: a snapshot in, a plan out, one JSON a line each.

The same for the worker and for `assignor plan`. Columns are taken straight from the parsed JSON
and written straight from the plan's columns: with 100,000 partitions, an object for each would cost
more than the plan.
"""

from __future__ import annotations

import traceback
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from assignor_bridge.columns import is_int, kind, read_observed, read_ranges
from assignor_bridge.errors import AssignorError, OptionError, one_line, words
from assignor_bridge.model import Allocation, Executor
from assignor_bridge.plan_json import tasks_json
from assignor_bridge.planner.batch import lay_out

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch
    from assignor_bridge.planner.plan import Outcome

#: Keys of a snapshot.
_KEYS = ("executors", "ranges", "options", "observed", "state", "parallelism", "allocation")
_EXECUTOR = ("id", "host", "slots", "rack", "priority")
#: Keys of its `allocation` that are whole numbers, with the least that they may be.
_LEAST = {"minExecutors": 0, "maxExecutors": 1, "slotsPerExecutor": 1}


def parse_request(line: bytes | str) -> dict[str, Any]:
    """One JSON object, or `OptionError`."""
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise OptionError(f"the request is no JSON: {error}") from None
    if not isinstance(request, dict):
        raise OptionError(f"the request is a JSON {kind(request)}: an object is expected")
    return request


def read_batch(request: dict[str, Any]) -> tuple[Batch, str | None]:
    """Take the batch and the state from a snapshot.

    Raises
    ------
    OptionError
        When it does not follow the contract; the message names the place.
    """
    unknown = sorted(set(request) - set(_KEYS))
    if unknown:
        raise OptionError(
            f"snapshot has an unknown key {unknown[0]!r}: {', '.join(_KEYS)} are known"
        )
    if request.get("ranges") is None:
        raise OptionError("snapshot has no 'ranges': a list of offset ranges is expected")
    state = request.get("state")
    if state is not None and not isinstance(state, str):
        raise OptionError(f"state is a JSON {kind(state)}: a string or null is expected")
    parallelism = request.get("parallelism", 1)
    if parallelism is None:
        parallelism = 1
    if not is_int(parallelism):
        raise OptionError(f"parallelism is {parallelism!r}: a whole number is expected")
    executors = request.get("executors")
    batch = lay_out(
        *read_ranges(request["ranges"]),
        [] if executors is None else _executors(executors),
        read_options(request.get("options")),
        read_observed(request.get("observed")),
        parallelism,
        _allocation(request.get("allocation")),
    )
    return batch, state


def read_options(given: Any) -> dict[str, str]:
    """Read options by name; a null is as good as none, and so is an empty list."""
    if given is None or given == []:
        return {}
    if not isinstance(given, dict):
        raise OptionError(f"options is a JSON {kind(given)}: an object is expected")
    for name, value in given.items():
        if isinstance(value, (dict, list)):
            raise OptionError(f"options.{name} is a JSON {kind(value)}: one value is expected")
    return {name: _option_text(value) for name, value in given.items() if value is not None}


def answer(outcome: Outcome) -> dict[str, Any]:
    """Write the plan as JSON values; the tasks are text already."""
    from checkpoints.sticky_state import encode

    return {
        "assignor": outcome.assignor,
        "tasks": orjson.Fragment(tasks_json(outcome)),
        "state": encode(outcome.state),
        "metrics": dict(outcome.metrics),
        "reasons": list(outcome.reasons),
    }


def failure(error: BaseException) -> dict[str, Any]:
    """Write what is answered instead of a plan: the cause in one line, and who has to act."""
    if isinstance(error, OptionError):
        return {"error": one_line(str(error)), "misuse": True}
    trace = "".join(traceback.format_exception(error))
    return {
        "error": one_line(str(error)) if isinstance(error, AssignorError) else words(error),
        "traceback": trace.encode("utf-8", "replace").decode(),
    }


def dump(value: dict[str, Any]) -> bytes:
    """One line of JSON."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)


def _executors(given: Any) -> list[Executor]:
    if not isinstance(given, list):
        raise OptionError(f"executors is a JSON {kind(given)}: a list is expected")
    try:
        if set().union(*given) <= set(_EXECUTOR):
            return [
                _plain(e["id"], e["host"], e.get("slots", 1), e.get("rack"), e.get("priority"))
                for e in given
            ]
    except (LookupError, AttributeError, TypeError):
        pass
    return [_executor(i, e) for i, e in enumerate(given)]


@lru_cache(maxsize=4096, typed=True)
def _plain(*values: Any) -> Executor:
    """Make an executor of values that need no closer look; the same ones come with each batch."""
    if (*map(type, values),) != (str, str, int, type(None), type(None)):
        raise TypeError
    return Executor(*values)


def _executor(i: int, given: Any) -> Executor:
    where = f"executors[{i}]"
    if not isinstance(given, dict):
        raise OptionError(f"{where} is a JSON {kind(given)}: an object is expected")
    unknown = sorted(set(given) - set(_EXECUTOR))
    if unknown:
        known = ", ".join(_EXECUTOR)
        raise OptionError(f"{where} has an unknown key {unknown[0]!r}: known are {known}")
    for key in ("id", "host"):
        if not isinstance(given.get(key), str):
            raise OptionError(f"{where}.{key} is {given.get(key)!r}: a string is expected")
    slots = given.get("slots", 1)
    if not is_int(slots):
        raise OptionError(f"{where}.slots is {slots!r}: a whole number is expected")
    rack, priority = given.get("rack"), given.get("priority")
    if rack is not None and not isinstance(rack, str):
        raise OptionError(f"{where}.rack is {rack!r}: a string or null is expected")
    if priority is not None and not is_int(priority):
        raise OptionError(f"{where}.priority is {priority!r}: a whole number or null is expected")
    return Executor(given["id"], given["host"], slots, rack, priority)


def _allocation(given: Any) -> Allocation | None:
    """Read the facts of dynamic allocation; null where it is off."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise OptionError(f"allocation is a JSON {kind(given)}: an object is expected")
    unknown = sorted(set(given) - {*_LEAST, "secondsSinceLastPlan"})
    if unknown:
        known = ", ".join([*_LEAST, "secondsSinceLastPlan"])
        raise OptionError(f"allocation has an unknown key {unknown[0]!r}: {known} are known")
    for key, least in _LEAST.items():
        if not is_int(given.get(key)) or given[key] < least:
            raise OptionError(
                f"allocation.{key} is {given.get(key)!r}: a whole number from {least} is expected"
            )
    since = given.get("secondsSinceLastPlan")
    if since is not None and not (isinstance(since, float) or is_int(since)):
        raise OptionError(
            f"allocation.secondsSinceLastPlan is {since!r}: a number or null is expected"
        )
    least, most, slots = (given[key] for key in _LEAST)
    return Allocation(least, most, slots, None if since is None else float(since))


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
