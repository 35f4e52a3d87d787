"""`make bench TARGETS=1`: all that the targets rest on, one after the other, in one run.

Nothing else should run meanwhile, and the tree must stay at its commit. A step that was done at
this commit is not run again, so a run that was stopped (Ctrl-C, too) goes on where it was; what it
has is in build/one-run/. A JSON file is written when its last step has ended; at the end there are
also `docs/benchmarks/one_run.json` and the page of results. `--pages COMMIT` writes all of them
again, from what a run at that commit has left, when the reasons in `targets.py` were changed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.benchmarks import one_run_page
from tests.lab.benchmarks.report import DOCS, ROOT, changes, commit
from tests.lab.benchmarks.steps import STEPS, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What a step that was told to stop has for its JVMs to end.
_END_LIMIT_S = 180.0
#: Settings of a user's own benchmarks, which say nothing to this run.
_FOREIGN = ("ASSIGNOR_BENCH_", "BENCH_")


def main() -> None:
    """Run what is left, and write the pages."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.one_run")
    parser.add_argument("--dirty", action="store_true", help="although the tree has changes")
    parser.add_argument("--pages", metavar="COMMIT", help="only write the pages of a run again")
    asked = parser.parse_args()
    if asked.pages:
        left = ROOT / "build" / "one-run" / asked.pages
        if missing := [step.name for step in STEPS if step.result(left) is None]:
            print(f"bench: {left} has nothing of {', '.join(missing)}", file=sys.stderr)
            sys.exit(2)
        one_run_page.write(left, STEPS, DOCS)
        return
    changed = changes()
    if changed and not asked.dirty:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        print(
            f"bench: the tree has changes ({changed[0]}{more}); commit them, or give DIRTY=1",
            file=sys.stderr,
        )
        sys.exit(2)
    folder = ROOT / "build" / "one-run" / commit()
    if changed:  # the same name for other code: nothing of it is known to be of this
        shutil.rmtree(folder, ignore_errors=True)
    for stops in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores the first
        signal.signal(stops, signal.default_int_handler)
    print(plan(folder, STEPS), flush=True)
    try:
        run(folder, STEPS, DOCS)
    except KeyboardInterrupt:
        print("bench: stopped; the same command goes on from here", file=sys.stderr)
        sys.exit(130)
    one_run_page.write(folder, STEPS, DOCS)
    print(f"bench: wrote {DOCS.relative_to(ROOT)}/one_run.json")
    failed = [step.name for step in STEPS if not step.is_done(folder)]
    if failed:
        print(f"bench: failed: {', '.join(failed)}; again with the same command", file=sys.stderr)
        sys.exit(1)


def plan(folder: Path, steps: Sequence[Step]) -> str:
    """Say how long each step takes, what is done, and what is left in all."""
    done = {step.name for step in steps if step.is_done(folder)}
    lines = [
        f"{step.name:<28} {step.minutes:>4.0f} min{'  done' if step.name in done else ''}"
        for step in steps
    ]
    left = [step.minutes for step in steps if step.name not in done]
    what = f"{len(left)} of {len(steps)} steps to run"
    return "\n".join([*lines, f"{what}, about {sum(left):.0f} minutes; leave the machine alone"])


def run(folder: Path, steps: Sequence[Step], docs: Path) -> None:
    """Run each step that has not measured yet; one that fails does not stop the next.

    A result is kept, and pages that are whole by it are written, while the tree is the one that
    gave the folder its name.
    """
    for number, step in enumerate(steps, 1):
        if step.is_done(folder):
            continue
        print(f"\n== {number} of {len(steps)}: {step.name}", flush=True)
        own = step.folder(folder)
        shutil.rmtree(own, ignore_errors=True)
        (own / "images").mkdir(parents=True)
        counted = own.with_name(f"{own.name}.tries")  # that of a stopped one counts, too
        tries = 1 + (int(counted.read_text()) if counted.exists() else 0)
        counted.write_text(str(tries))
        in_use, begin = busy(), time.time()
        code = run_step(step, own / "benchmarks")
        result = {
            "code": code, "began": begin, "seconds": time.time() - begin, "tries": tries,
            "busy": in_use,
        }  # fmt: skip
        if commit() != folder.name:
            print(f"bench: the tree is no longer at {folder.name}: stopped", file=sys.stderr)
            sys.exit(1)
        (own / "result.json").write_text(json.dumps(result), encoding="utf-8")
        one_run_page.write_whole(folder, steps, docs)


def busy(within_s: float = 1) -> float:
    """Return the share of the processors' time that is in use, by the kernel's count."""

    def counted() -> tuple[int, int]:
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return sum(ticks[:8]), ticks[3] + ticks[4]  # all, and those of idling

    before, idle_before = counted()
    time.sleep(within_s)
    after, idle_after = counted()
    return 1 - (idle_after - idle_before) / max(1, after - before)


def run_step(step: Step, pages: Path) -> int:
    """Run one step in a session of its own, so that nothing of it is left beside the next."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    given = {**kept, **step.settings, "ASSIGNOR_BENCH_FOLDER": str(pages)}
    process = subprocess.Popen(step.command, cwd=ROOT, env=given, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_LIMIT_S)
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    main()
