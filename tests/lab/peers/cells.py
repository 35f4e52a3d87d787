"""The measured cells, one file each in `build/peers/cells`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tests.lab.peers.environments import BUILD

if TYPE_CHECKING:
    from pathlib import Path

CELLS = BUILD / "cells"


@dataclass(frozen=True)
class Cell:
    """One run of one way under one law; without a number, its kills."""

    law: str
    way: str
    run: int | None
    #: Measured seconds of each rate: cells of different lengths are different cells.
    seconds: float
    #: Records a second; a measured cell that lacks one of them is not done.
    rates: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of its file."""
        if self.run is None:
            return f"{self.law}-{self.way}-kills"
        return f"{self.law}-{self.way}-{self.seconds:g}s-run{self.run + 1}"

    @property
    def path(self) -> Path:
        """Where its figures are."""
        return CELLS / f"{self.name}.json"

    def is_done(self) -> bool:
        """Whether it has been measured, at all of these rates."""
        if not self.path.exists():
            return False
        measured = {rung["load"] for rung in self.read().get("rungs", ())}
        return measured.issuperset(self.rates)

    def read(self) -> dict[str, Any]:
        """Return its figures."""
        figures: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return figures

    def write(self, figures: dict[str, Any]) -> None:
        """Keep its figures."""
        CELLS.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"cell": asdict(self), **figures}, indent=1)
        self.path.write_text(text + "\n", encoding="utf-8")


def list_measured(seconds: float) -> list[Cell]:
    """Return all cells that are there: those of this length, and kills; by law, way, and run."""
    found = [
        Cell(**json.loads(path.read_text(encoding="utf-8"))["cell"])
        for path in sorted(CELLS.glob("*.json"))
    ]
    return [cell for cell in found if cell.run is None or cell.seconds == seconds]
