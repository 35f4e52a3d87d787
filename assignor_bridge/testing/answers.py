"""What the assignors of a test module answer in new processes, each with a hash seed of its own.

The order of a set of texts depends on the hash seed, which a process has from its start: so only
another process shows whether an answer depends on it.
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
from assignor_bridge.testing.groups import disturb, random_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.protocol import Assignor

#: Seeds that are compared: the same in every run, so that a run's outcome is, too.
SEEDS = ("1", "2")
#: Groups that are asked about, and what happens to each of them.
_GROUPS, _STEPS = 20, 3
_LAGS = (0, 0, 1, 7, 9, 10_000)
_CALL = "import sys; from assignor_bridge.testing.answers import main; main(*sys.argv[1:])"


def answers(assignor: Assignor, *, same: bool) -> Iterator[str]:
    """Ask about groups from a seed, and write each group with its answer as text."""
    rng = random.Random(1)
    for number in range(_GROUPS):
        alike = same or number % 2 == 0
        group = random_group(rng, same=alike, racks=number % 3 == 0)
        for _ in range(_STEPS):
            group = _loaded(rng, group)
            if reason := assignor.refusal(group):
                yield f"{group.ids} of {dict(group.topics)}: refused, {reason}"
                break
            last = rebalance(assignor, group)[-1]
            told = last.assignment
            copies = {m: dict(part) for m, part in sorted(told.standbys.items())}
            yield f"{group.ids} of {dict(group.topics)}: {told.as_dict()} {copies} {told.notes}"
            group = disturb(rng, last.after, same=alike)


def _loaded(rng: random.Random, group: Group) -> Group:
    lags = {t: {p: rng.choice(_LAGS) for p in range(n)} for t, n in sorted(group.topics.items())}
    return replace(group, lags=lags, standby_replicas=rng.randint(0, 2))


@lru_cache(maxsize=8)
def answers_by_seed(module: str, file: str) -> Sequence[dict[str, list[str]]]:
    """Return what the conformance classes of a module were answered, by name: one for each seed.

    Raises OSError when a process fails, with what it printed.
    """
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", _CALL, module, file],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in SEEDS
    ]
    found = []
    for run in runs:
        out, problems = run.communicate()
        if run.returncode:
            raise OSError(f"{file} could not be imported by a new process: {problems.strip()}")
        found.append(json.loads(out.splitlines()[-1]))
    return found


def main(module: str, file: str) -> None:
    """Print as JSON what the conformance classes of a module are answered, by name."""
    from assignor_bridge.testing.conformance import AssignorConformance

    found = {}
    for case in vars(_imported(module, file)).values():
        mine = isinstance(case, type) and case.__module__ == module
        if mine and issubclass(case, AssignorConformance) and case.assignor is not None:
            try:
                found[case.__qualname__] = [*case().answers()]
            except AssignorError as error:  # another case says it
                found[case.__qualname__] = [str(error)]
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def _imported(name: str, file: str) -> ModuleType:
    """Import a file by a name that need not be found on the path, as pytest may have done."""
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
