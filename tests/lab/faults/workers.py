"""Workers of a standalone cluster die, or stop for longer than Spark waits, with their executors.

Spark is started for them, on two workers of one slot each.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tests.lab.faults.harm import CLUSTER, Kind
from tests.support.spark_tools import start_spark, wait_until
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.lab.faults.harm import Harm
    from tests.support.standalone_cluster import StandaloneCluster

_WORKERS = workers(1, 1)
#: How long an executor is heard no more before Spark takes it for lost: two minutes by default.
_SILENT = {
    "spark_executor_heartbeatInterval": "1s",
    "spark_network_timeout": "8s",
    "spark_network_timeoutInterval": "1s",
    "spark_storage_blockManagerHeartbeatTimeoutMs": "8s",
}


@contextlib.contextmanager
def spark_on_workers(folder: Path) -> Iterator[tuple[StandaloneCluster, SparkSession]]:
    """Run a cluster with a session on it, within; no other session may be there."""
    with standalone_cluster(folder / "cluster", _WORKERS) as cluster:
        session = start_spark(cluster.url, folder, **_SILENT)
        try:
            wait_until(lambda: _known(session) == len(_WORKERS), "the executors", 120)
            yield cluster, session
        finally:
            session.stop()


def worker_killed(harm: Harm) -> None:
    """Kill a worker and its executor in a batch, as when a host dies; start it again."""
    worker = harm.scene.rng.choice(_WORKERS)
    harm.scene.await_a_batch()
    harm.workers.kill(worker)
    wait_until(lambda: _known(harm.scene.spark) == 1, "Spark to know of it", 120)
    harm.scene.wait_for_batches(3)
    harm.workers.start(worker)
    wait_until(lambda: _known(harm.scene.spark) == len(_WORKERS), "its next executor", 120)
    harm.scene.wait_for_batches(3)


def worker_stopped(harm: Harm) -> None:
    """Stop a worker and its executor (SIGSTOP) until Spark takes it for lost; continue both."""
    before = set(harm.scene.executors())
    harm.scene.await_a_batch()
    with harm.workers.paused(harm.scene.rng.choice(_WORKERS)):
        wait_until(lambda: _known(harm.scene.spark) == 1, "Spark to take it for lost", 120)
        harm.scene.wait_for_batches(3)
    wait_until(lambda: _known(harm.scene.spark) == len(_WORKERS), "another executor", 120)
    wait_until(lambda: len(set(harm.scene.executors()) & before) == 1, "the end of the one")
    harm.scene.wait_for_batches(3)


def _known(spark: SparkSession) -> int:
    """Count the executors that the driver's scheduler has."""
    count: int = spark.sparkContext._jsc.sc().getExecutorIds().size()
    return count


KINDS = tuple(
    Kind(name, CLUSTER, make, alone="spark_on_workers", long=False)
    for name, make in (("worker killed", worker_killed), ("worker stopped", worker_stopped))
)
