"""Many streams in one driver: planner processes, their memory, and the time to start and stop.

Each stream reads a topic of 4 partitions into nothing, in local mode with two cores: two batches
of 400 records. `alone` is a planner process for each stream, as it was before they shared one (each
is given another `spark.assignor.env`). `start_s` counts from the start of the first query until all
have read their first batch; `slowest_plan_ms` is of the batches after it, with the wait for the
planner's turn; memory is resident, pages that processes share counted in each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks import many_streams_run
from tests.lab.benchmarks.report import write_report
from tests.support import drivers
from tests.support.kafka_topics import Topic

if TYPE_CHECKING:
    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

COUNTS = (1, 10, 50)


def test_many_streams(broker: EmbeddedBroker, tmp_path: Path) -> None:
    rows = []
    for count in COUNTS:
        for mode in ("alone", "shared"):
            figures = measured(broker.bootstrap_servers, count, mode, tmp_path / f"{mode}{count}")
            assert figures["planners"] == (count if mode == "alone" else 1)
            rows.append({"streams": count, "planners_are": mode, **figures})
            print(rows[-1])
    write_report(
        "many_streams",
        title="Many streams in one driver",
        command="make bench",
        rows=rows,
        notes=__doc__ or "",
    )


def measured(servers: str, count: int, mode: str, folder: Path) -> dict[str, Any]:
    """Run one driver; the line that it prints."""
    topics = [Topic(servers, f"many-{uuid4().hex[:8]}").create(4) for _ in range(count)]
    for topic in topics:
        topic.fill([100] * 4)
    folder.mkdir()
    names = ",".join(topic.name for topic in topics)
    done = drivers.run(many_streams_run, servers, names, folder, mode, limit_s=600)
    [figures] = [line for line in drivers.parse_json_lines(done) if "planners" in line]
    return figures
