"""Read what a way has written, without the way's own help: `python watch.py delta|files FOLDER`.

It runs in the loop's environment, which has pyarrow. Each line on stdin is a request, answered with
a line of JSON:

- `rows`: the number of visible rows, and when the last of them became visible.
- `rate [from_ms, until_ms]`: the rate of the commits in a window.
- `figures {"windows": [[from_ms, until_ms], …], "produced": …}`: for each window of produce times
  the ages of its rows, and the commits in it; then lost and doubled rows of the whole output.

A row is visible when Delta's log names its file, or when its file has its final name. Both moments
are the change time of a file (ctime): that of the commit in Delta's log, or of the data file, which
a rename updates.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np


@dataclass(frozen=True)
class Commit:
    """Files that became visible at the same moment."""

    visible_s: float
    files: tuple[Path, ...]
    rows: int


class DeltaOutput:
    """A Delta table, read from the commits of its log; each commit is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.commits: list[Commit] = []

    def update(self) -> None:
        """Read the commits that are new."""
        log = self._folder / "_delta_log"
        while (path := log / f"{len(self.commits):020}.json").exists():
            self.commits.append(self._read(path))

    def _read(self, path: Path) -> Commit:
        files, rows = [], 0
        for line in path.read_text(encoding="utf-8").splitlines():
            added = json.loads(line).get("add")
            if added and added["dataChange"]:
                file = self._folder / unquote(added["path"])
                stats = json.loads(added.get("stats") or "{}")
                files.append(file)
                rows += stats.get("numRecords") or count_rows(file)
        return Commit(path.stat().st_ctime, tuple(files), rows)


class FileOutput:
    """A folder of Parquet files; names that start with `.` or `_` are not visible yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: set[str] = set()
        self.commits: list[Commit] = []

    def update(self) -> None:
        """Add the files that are new; each is a commit of its own."""
        if not self._folder.is_dir():
            return
        new = [
            path
            for path in self._folder.iterdir()
            if path.name not in self._known and path.name[0] not in "._" and path.is_file()
        ]
        for path in sorted(new, key=lambda each: each.stat().st_ctime):
            self._known.add(path.name)
            rows = count_rows(path)
            self.commits.append(Commit(path.stat().st_ctime, (path,), rows))


def count_rows(file: Path) -> int:
    """Return the number of rows of a Parquet file, from its footer."""
    from pyarrow import parquet  # the unit tests of this program have no pyarrow

    return int(parquet.read_metadata(file).num_rows)


def compute_figures(commits: list[Commit], windows: list[list[int]], produced: int) -> dict:
    """Return the figures of each window, and the lost and doubled rows of all commits.

    Ages are those of the rows *produced* in a window. The rate, and the number of files, are those
    of the *commits* in it.
    """
    from pyarrow import parquet

    ids, ages, made = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0, np.int64)]
    for commit in commits:
        for file in commit.files:
            table = parquet.read_table(file, columns=["id", "at"])
            ids.append(table["id"].to_numpy())
            made.append(table["at"].to_numpy())
            ages.append(commit.visible_s - made[-1] / 1000)
    made_ms, age_s = np.concatenate(made), np.concatenate(ages)
    found = []
    for from_ms, until_ms in windows:
        inside = age_s[(made_ms >= from_ms) & (made_ms < until_ms)]
        p50, p99 = np.percentile(inside, (50, 99)) if len(inside) else (None, None)
        found.append(
            {"rows": len(inside), "age_p50_s": p50, "age_p99_s": p99}
            | compute_rate(commits, from_ms / 1000, until_ms / 1000)
        )
    counts = np.bincount(np.concatenate(ids), minlength=produced)
    return {
        "windows": found,
        "lost": int((counts[:produced] == 0).sum()),
        "doubled": int(np.maximum(counts - 1, 0).sum()),
        "unknown": int(counts[produced:].sum()),
    }


def compute_rate(commits: list[Commit], from_s: float, until_s: float) -> dict:
    """Return the rate and the files of the commits in a window.

    The rate is over whole commit intervals: from the last commit before the window (or the first
    one in it) to the last commit in it. With fewer than two commits there is no rate.
    """
    before = [each for each in commits if each.visible_s <= from_s][-1:]
    inside = [each for each in commits if from_s < each.visible_s <= until_s]
    files = sum(len(each.files) for each in inside)
    ends = [*before, *inside]
    lasted_s = ends[-1].visible_s - ends[0].visible_s if ends else 0.0
    rate = sum(each.rows for each in ends[1:]) / lasted_s if lasted_s > 0 else None
    minutes = (until_s - from_s) / 60
    return {
        "rate": rate,
        "committed_rows": sum(each.rows for each in inside),
        "commits": len({each.visible_s for each in inside}),
        "files_per_minute": files / minutes,
    }


def main() -> None:
    """Answer requests until stdin ends."""
    kind, folder = sys.argv[1], Path(sys.argv[2])
    output = DeltaOutput(folder) if kind == "delta" else FileOutput(folder)
    for line in sys.stdin:
        request, _, argument = line.strip().partition(" ")
        output.update()
        if request == "rows":
            answer = {
                "rows": sum(each.rows for each in output.commits),
                "last_visible_s": output.commits[-1].visible_s if output.commits else None,
            }
        elif request == "rate":
            from_ms, until_ms = json.loads(argument)
            answer = compute_rate(output.commits, from_ms / 1000, until_ms / 1000)
        else:
            answer = compute_figures(output.commits, **json.loads(argument))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
