"""Compare the answers of a test module's assignors between processes with different hash seeds.

The order of a set of strings depends on the hash seed, which is fixed when a process starts. So
only another process shows whether an answer depends on that order.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING

from assignor_bridge.assignors.testing import rebalance
from assignor_bridge.errors import AssignorError
from assignor_bridge.testing.random_groups import disturb, random_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.protocol import Assignor

#: The compared hash seeds: fixed, so that every run has the same outcome.
SEEDS = ("1", "2")
_GROUP_COUNT = 20  # random groups
_STATE_COUNT = 3  # states of each group: the first, and one after each change
_LAGS = (0, 0, 1, 7, 9, 10_000)
_SCRIPT = "import sys; from assignor_bridge.testing.hash_seeds import main; main(*sys.argv[1:])"


def generate_answers(assignor: Assignor, *, same_topics: bool) -> Iterator[str]:
    """Yield a text for each state of seeded random groups: the group, and the answer or refusal."""
    rng = random.Random(1)
    for number in range(_GROUP_COUNT):
        same = same_topics or number % 2 == 0
        group = random_group(rng, same=same, racks=number % 3 == 0)
        for _ in range(_STATE_COUNT):
            group = _set_random_lags_and_standbys(rng, group)
            if reason := assignor.refusal(group):
                yield f"{group.ids} of {dict(group.topics)}: refused, {reason}"
                break
            last_round = rebalance(assignor, group)[-1]
            assignment = last_round.assignment
            standbys = {m: dict(part) for m, part in sorted(assignment.standbys.items())}
            answer = f"{assignment.as_dict()} {standbys} {assignment.notes}"
            yield f"{group.ids} of {dict(group.topics)}: {answer}"
            group = disturb(rng, last_round.after, same=same)


def _set_random_lags_and_standbys(rng: random.Random, group: Group) -> Group:
    lags = {t: {p: rng.choice(_LAGS) for p in range(n)} for t, n in sorted(group.topics.items())}
    return replace(group, lags=lags, standby_replicas=rng.randint(0, 2))


@lru_cache(maxsize=8)
def collect_answers(module_name: str, path: str) -> Sequence[dict[str, list[str]]]:
    """Return each seed's answers, by conformance class; raise OSError if a process fails."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, module_name, path],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in SEEDS
    ]
    answers_per_seed = []
    for process in processes:
        output, error_output = process.communicate()
        if process.returncode:
            raise OSError(f"{path} failed in a new process: {error_output.strip()}")
        answers_per_seed.append(json.loads(output.splitlines()[-1]))
    return answers_per_seed


def main(module_name: str, path: str) -> None:
    """Print the answers of a module's conformance classes as a JSON object by class name."""
    from assignor_bridge.testing.conformance import AssignorConformance

    answers_by_class = {}
    for case in vars(_import_file(module_name, path)).values():
        is_defined_here = isinstance(case, type) and case.__module__ == module_name
        if is_defined_here and issubclass(case, AssignorConformance) and case.assignor is not None:
            try:
                answers_by_class[case.__qualname__] = [*case().answers()]
            except AssignorError as error:  # another test case reports it
                answers_by_class[case.__qualname__] = [str(error)]
    sys.stdout.write(f"\n{json.dumps(answers_by_class)}\n")


def _import_file(module_name: str, path: str) -> ModuleType:
    """Import a file as the named module, even if it is not on `sys.path`, as pytest does."""
    spec = spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = sys.modules[module_name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
