"""Made-up figures for pictures and tables: one run with everything on one slot, one even run."""

from __future__ import annotations

from streaming.observe.figures import BatchFigures, RunFigures, TaskFigures

SLOTS = ("0/0", "1/0", "2/0", "3/0")
OURS = {"assignor.strategy": "lag-aware-sticky", "assignor.fallbacks": "0",
        "assignor.splitPartitions": "2", "assignor.movedPartitions": "1",
        "assignor.movedOffsets": "0.1", "assignor.predictionError": "0.04"}  # fmt: skip


def skewed_run(partitions: int = 12, batches: int = 6) -> RunFigures:
    """Loads of 4,000, 1,000, 1,000 and 0 records a batch, in one task a slot."""
    return RunFigures(
        "Spark's default assignment",
        tuple(
            BatchFigures(
                batch=number,
                seconds=3.0 + number % 3 * 0.25,
                records=6_000,
                slots=SLOTS,
                tasks=(
                    TaskFigures("0/0", 0.0, 2.0, 3_000, local=True),
                    TaskFigures("0/0", 2.0, 0.5, 1_000, local=False),
                    TaskFigures("1/0", 0.1, 0.5, 1_000, local=True),
                    TaskFigures("2/0", 0.0, 0.5, 1_000, local=True),
                ),
                lag=_lag(partitions, batches - number),
                newest_age_s=3.5,
                oldest_age_s=4.0,
            )
            for number in range(batches)
        ),
        warm_up_batches=1,
    )


def even_run(partitions: int = 12, batches: int = 6) -> RunFigures:
    """1,500 records a slot and batch, planned by us."""
    return RunFigures(
        "lag-aware-sticky",
        tuple(
            BatchFigures(
                batch=number,
                seconds=1.5 if number else 4.0,
                records=6_000,
                slots=SLOTS,
                tasks=tuple(TaskFigures(slot, 0.0, 0.75, 1_500, local=True) for slot in SLOTS),
                lag=_lag(partitions, batches - number),
                newest_age_s=1.75,
                oldest_age_s=2.25,
                metrics=OURS,
            )
            for number in range(batches)
        ),
        warm_up_batches=1,
    )


def _lag(partitions: int, left: int) -> dict[str, int]:
    return {f"flights-{p}": left * (60_000 // (1 + 7 * p % 12) // 8 if p % 4 else 0)
            for p in range(partitions)}  # fmt: skip
