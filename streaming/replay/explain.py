"""Why one batch was planned as it was: each partition's reason, its cost, and the alternatives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.errors import AssignorError
from assignor_bridge.model import Partition
from assignor_bridge.planner.costs import predict
from assignor_bridge.planner.learn import learn
from assignor_bridge.planner.plan import plan_step
from assignor_bridge.planner.table import load
from assignor_bridge.simulator.play import Player, is_sparks, placed
from assignor_bridge.simulator.scenario import Step
from streaming.observe.words import seconds_text
from streaming.replay.player import PLAIN, AsLogged
from streaming.replay.stories import PartitionStory, stories_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.planner.batch import Batch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.plan import Outcome
    from assignor_bridge.simulator.mappings import Placed
    from assignor_bridge.simulator.play import Played
    from streaming.replay.kept_batch import KeptBatch


@dataclass(frozen=True)
class Alternative:
    """What one mapping or assignor would have done with the same batch."""

    name: str
    played: Played | None = None
    tasks: Sequence[Placed] = ()
    error: str | None = None

    def where(self, partition: Partition) -> str:
        """Say which executors read a partition, and how many pieces it is in."""
        at = [t.executor for t in self.tasks for r in t.ranges if r.tp == partition]
        places = list(dict.fromkeys("anywhere" if e is None else e for e in at))
        return ", ".join(places) + (f" ({len(at)} pieces)" if len(at) > 1 else "")


@dataclass(frozen=True, eq=False)
class Explanation:
    """One batch, explained."""

    kept: KeptBatch
    outcome: Outcome
    weights: Weights
    stories: Sequence[PartitionStory]
    alternatives: Sequence[Alternative]
    #: Of the partitions of which the checkpoint names the reader, how many the plan gives to it.
    agreeing: int

    def amount(self, value: float) -> str:
        """Write a predicted cost in its unit."""
        in_seconds = self.weights.basis == "seconds"
        return seconds_text(value) if in_seconds else f"{value:,.0f}{self.weights.unit}"

    @property
    def judged_by(self) -> str:
        """In words, which costs the alternatives are judged by."""
        if _all_took(self.kept):
            return f"what the batch took ({self.kept.took_origin})"
        return f"what was predicted ({self.weights.words.removeprefix('weights: ')})"

    def as_json(self, of: Sequence[PartitionStory]) -> dict[str, Any]:
        """As JSON values, with the stories of some partitions."""
        return {
            "batch": self.kept.number,
            "assignor": self.outcome.assignor,
            "origin": self.kept.origin,
            "readersNamed": len(self.kept.readers),
            "readersAgree": self.agreeing,
            "reasons": list(self.outcome.reasons),
            "costUnit": self.weights.unit.strip(),
            "tookOrigin": self.kept.took_origin,
            "partitions": [
                {
                    "partition": str(story.partition),
                    "change": story.change,
                    "before": story.before,
                    "pieces": [vars(piece) for piece in story.pieces],
                    "why": story.why,
                    "predicted": story.predicted,
                    "tookSeconds": story.took,
                    "alternatives": {a.name: a.where(story.partition) for a in self.alternatives},
                }
                for story in of
            ],
            "alternatives": [
                {"name": a.name, "error": a.error}
                if a.played is None
                else {
                    "name": a.name,
                    "busiest": a.played.seconds,
                    "best": a.played.bound_seconds,
                    "regret": a.played.over,
                    "moved": a.played.broken,
                    "tasks": a.played.tasks,
                }
                for a in self.alternatives
            ],
        }


def explain_batch(
    kept: KeptBatch, names: Sequence[str], find: Callable[[str], Assignor]
) -> Explanation:
    """Plan a batch again and say why it is as it is."""
    kept, outcome = _planned(kept, names, find)
    table = load(kept.before, outcome.batch)
    learned, _ = learn(table, outcome.batch)
    weights = predict(learned, table.line, outcome.batch)
    stories = stories_of(kept.took, outcome, table, weights)
    step = _step(kept, outcome.batch, weights)
    at = {Partition(*tp): r.executor for tp, r in kept.before.last_executors().items()}
    alternatives = [_alternative(name, kept, step, at, find) for name in names]
    agreeing = _agreeing(kept, placed(outcome))
    return Explanation(kept, outcome, weights, stories, alternatives, agreeing)


def _planned(
    kept: KeptBatch, names: Sequence[str], find: Callable[[str], Assignor]
) -> tuple[KeptBatch, Outcome]:
    """Plan a batch by the assignor that it had; where that is not kept, by whose readers agree."""
    batch = kept.batch
    topics = [batch.topics[topic] for topic in batch.topic.tolist()]
    read = {Partition(*tp) for tp in zip(topics, batch.partition.tolist(), strict=True)}
    kept = replace(kept, readers={tp: e for tp, e in kept.readers.items() if tp in read})
    outcome = plan_step(batch, kept.before, find)
    most = _agreeing(kept, placed(outcome))
    for name in names:
        if most == len(kept.readers):
            break
        if is_sparks(name):
            continue
        settings = replace(batch.settings, assignors=(name,))
        try:
            other = plan_step(replace(batch, settings=settings), kept.before, find)
        except AssignorError:
            continue
        if (agreeing := _agreeing(kept, placed(other))) > most:
            most, outcome = agreeing, other
    if outcome.batch.settings.assignors != batch.settings.assignors:
        kept = replace(kept, batch=replace(batch, settings=outcome.batch.settings))
    return kept, outcome


def _agreeing(kept: KeptBatch, tasks: Sequence[Placed]) -> int:
    """Count the partitions whose end is read by the executor that the checkpoint names.

    Of those that zones share it names the last near reader; racks are not in it to know which.
    """
    last: dict[Partition, tuple[int, str | None]] = {}
    for task in tasks:
        for r in task.ranges:
            last[r.tp] = max(last.get(r.tp, (-1, None)), (r.end, task.executor), key=lambda e: e[0])
    return sum(last.get(tp, (0, None))[1] == reader for tp, reader in kept.readers.items())


def _all_took(kept: KeptBatch) -> bool:
    batch = kept.batch
    return all(
        Partition(batch.topics[topic], partition) in kept.took
        for topic, partition in zip(batch.topic.tolist(), batch.partition.tolist(), strict=True)
    )


def _step(kept: KeptBatch, batch: Batch, weights: Weights) -> Step:
    """Return the batch for the scheduler: by what it took, else by what was predicted."""
    topics = [batch.topics[topic] for topic in batch.topic.tolist()]
    partitions = [Partition(*tp) for tp in zip(topics, batch.partition.tolist(), strict=True)]
    seconds = weights.work
    if _all_took(kept):
        sizes: dict[Partition, int] = {}
        for tp, size in zip(partitions, batch.size.tolist(), strict=True):
            sizes[tp] = sizes.get(tp, 0) + size
        each = np.array([kept.took[tp] / sizes[tp] for tp in partitions])
        seconds = each * batch.size
    ids = [e.id for e in batch.executors]
    slowness = dict(zip(ids, weights.slowness.tolist(), strict=True))
    return Step(
        kept.number, batch.executors, partitions, batch.start, batch.size, seconds / batch.size,
        slowness,
    )  # fmt: skip


def _alternative(
    name: str,
    kept: KeptBatch,
    step: Step,
    at: Mapping[Partition, str],
    find: Callable[[str], Assignor],
) -> Alternative:
    try:
        if is_sparks(name):
            tasks = Player(name, PLAIN).plan(step)
        else:
            settings = replace(kept.batch.settings, assignors=(name,))
            tasks = placed(plan_step(replace(kept.batch, settings=settings), kept.before, find))
    except AssignorError as error:
        return Alternative(name, error=str(error))
    player = AsLogged(name, PLAIN, at=dict(at), logged={step.number: tasks})
    return Alternative(name, player.play(step), tasks)
