"""Without the order of the plan rows differ, are lost and are doubled: the tests of it would fail.

On Spark 4.2 its own check of shuffles is off for that. By default it notices the other rows there
and fails the query.
"""

from __future__ import annotations

import importlib.metadata
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.compat.matrix import ROOT
from tests.lab.faults.protections import PLAN_ORDER
from tests.lab.faults.without import copied
from tests.support import drivers, row_order_driver
from tests.support.row_order_driver import DISTRIBUTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(1800)]

VERSION = tuple(map(int, importlib.metadata.version("pyspark").split(".")[:2]))
#: With these, Spark compares checksums of the rows that a repeated task writes into a shuffle.
CHECKSUMS = [
    "spark_sql_shuffle_orderIndependentChecksum_enabled",
    "spark_sql_shuffle_orderIndependentChecksum_enableFullRetryOnMismatch",
]


@pytest.fixture(scope="module")
def without_order() -> Iterator[Path]:
    """Copy the project, with a reader that gives rows in the order in which they arrive.

    As everywhere here, the jar is built against the pyspark of `.venv`.
    """
    with copied(PLAN_ORDER, str(ROOT / ".venv" / "bin" / "python")) as root:
        yield root


def lines_of(root: Path, broker: EmbeddedBroker, folder: Path, *settings: str) -> list[Any]:
    """Run the driver of a copy with the shared reader; return its lines."""
    name = f"row-order-{uuid.uuid4().hex[:6]}"
    place = (broker.bootstrap_servers, name, folder, "shared")
    done = drivers.run(row_order_driver, *place, *settings, limit_s=900, root=root)
    lines = drivers.parse_json_lines(done)
    print(*(json.dumps(line) for line in lines if "done" in line), sep="\n")
    return lines


def test_rows_differ_and_are_lost_and_doubled_in_the_order_of_arrival(
    without_order: Path, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    lines = lines_of(without_order, broker, tmp_path, *(f"{name}=false" for name in CHECKSUMS))

    compared = [line["differences"] for line in lines if line.get("done") == "compare"]
    assert len(compared) == row_order_driver.BATCHES["shared"].count("compare")
    assert all(each[how] for each in compared for how in ("again", "retried", "speculated"))
    [shuffled] = [line for line in lines if line.get("done") == "shuffle"]
    assert all(shuffled[by]["lost"] and shuffled[by]["doubled"] for by in DISTRIBUTIONS), shuffled


@pytest.mark.skipif(VERSION < (4, 2), reason="checksums by default were seen in 4.2 only")
def test_spark_fails_the_query_by_default_if_a_repeated_task_gives_other_rows(
    without_order: Path, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="Streaming Query"):
        lines_of(without_order, broker, tmp_path)
    log = (tmp_path / "driver.log").read_text()
    assert "A shuffle map stage with indeterminate output was failed and retried" in log
