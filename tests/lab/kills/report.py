"""What was killed and where it hit; runs can be added up."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tests.lab.kills.checks import PLACES
from tests.lab.kills.moments import MOMENTS
from tests.lab.kills.places import QUERIES, TWO_EXECUTORS

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Kill:
    """One kill: the moment that was waited for, and where it found the queries."""

    moment: str
    #: Whose moment it was.
    query: str
    #: By query; empty when an executor was killed.
    hits: dict[str, str]
    #: Spark's.
    master: str = TWO_EXECUTORS
    #: Whether batches were limited by our options.
    limited: bool = False


@dataclass
class Report:
    """One run, or several of them."""

    seeds: list[int]
    kills: list[Kill] = field(default_factory=list)
    #: Partitions that each first plan after a restart moved, by query.
    moved: dict[str, list[int]] = field(default_factory=lambda: {query: [] for query in QUERIES})
    #: Rows of each version of the upsert's table that was compared.
    compared: list[int] = field(default_factory=list)
    records: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, runs: Iterable[Report]) -> Report:
        """Add runs up."""
        total = cls([])
        for run in runs:
            total.seeds += run.seeds
            total.kills += run.kills
            for query, moved in run.moved.items():
                total.moved[query] += moved
            total.compared += run.compared
            total.records += run.records
            total.seconds += run.seconds
        return total

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Report:
        read = json.loads(text)
        return cls(**read | {"kills": [Kill(**kill) for kill in read["kills"]]})

    @property
    def driver_kills(self) -> int:
        return sum(bool(kill.hits) for kill in self.kills)

    def hits(self, query: str) -> Counter[str]:
        """Where the kills of the driver found a query."""
        return Counter(kill.hits[query] for kill in self.kills if kill.hits)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each moment: the number of kills, and where they found each query."""
        rows = []
        for moment in MOMENTS:
            kills = [kill for kill in self.kills if kill.moment == moment.name]
            row: dict[str, Any] = {"moment": moment.name, "kills": len(kills)}
            row["with executors"] = sum(kill.master == TWO_EXECUTORS for kill in kills)
            row["limited batches"] = sum(kill.limited for kill in kills)
            for query in QUERIES:
                found = Counter(kill.hits.get(query) for kill in kills)
                row |= {f"{query}: {place}": found[place] for place in PLACES}
            rows.append(row)
        return rows

    def __str__(self) -> str:
        moved = {query: dict(sorted(Counter(m).items())) for query, m in self.moved.items()}
        each_s = self.seconds / max(1, len(self.kills))
        executors = len(self.kills) - self.driver_kills
        alone = sum(kill.master != TWO_EXECUTORS for kill in self.kills)
        limited = sum(kill.limited for kill in self.kills)
        return f"""\
{len(self.kills)} kills in {self.seconds:.0f} s ({each_s:.1f} s a kill): {self.driver_kills} of the
driver with all its processes ({alone} of these in local mode, without executors), {executors} of
one of two executors; {limited} of all with batches that our options limit. Each query read
{self.records} records. The upsert's table was compared row by
row at {len(self.compared)} versions, {sum(self.compared)} rows in all. Partitions (of 40) that the
first plan after a restart with executors moved, by number of restarts: {moved}."""
