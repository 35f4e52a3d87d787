"""One checkpoint under other versions of the planner's state: up, down, and up again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from checkpoints.state_text import VERSION
from tests.support import other_version
from tests.support.spark_tools import (
    assert_each_row_once,
    assert_planned,
    run_to_table,
    write_interpreter,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic
    from tests.support.spark_tools import DriverLog

pytestmark = pytest.mark.integration

EACH = 20
OPTION = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
UNUSED = "cannot use its stored state"


def state_files(checkpoint: str) -> list[Path]:
    """Oldest first."""
    found = (Path(checkpoint) / "sources" / "0" / "assignments").glob("[0-9]*.v[0-9]*")
    return sorted(found, key=lambda path: int(path.name.partition(".")[0]))


@pytest.fixture
def next_version(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[bool], None]]:
    """Turn `spark.assignor.python` to a planner of the next version, and back."""
    before = spark.conf.get("spark.assignor.python")
    script = tmp_path / "next-version"
    write_interpreter(script, other_version.__file__)

    def use(is_next: bool) -> None:
        spark.conf.set("spark.assignor.python", str(script) if is_next else before or "")

    yield use
    use(False)


@pytest.mark.long
def test_a_checkpoint_goes_up_to_the_next_version_down_and_up_again(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    tmp_path: Path,
    driver_log: DriverLog,
    next_version: Callable[[bool], None],
) -> None:
    """Each batch is planned, no row is lost or read twice, and going down is one warning."""
    topic.create(3)
    table = str(tmp_path / "table")
    newest = []
    for run, is_next in enumerate((False, True, False, True)):
        topic.fill([EACH] * 3, first=run * EACH)
        next_version(is_next)
        assert_planned(run_to_table(spark, topic, checkpoint, table, **OPTION))
        assert_each_row_once(spark, table, [(run + 1) * EACH] * 3)
        assert len(driver_log.lines(UNUSED)) == (0 if run < 2 else 1)
        newest.append(state_files(checkpoint)[-1])

    present, following = f".v{VERSION}", f".v{VERSION + 1}"
    assert [file.suffix for file in newest] == [present, following, present, following]
    [warning] = driver_log.lines(UNUSED)
    assert f"{newest[1].name}: the state has version {VERSION + 1}, newer than" in warning
    assert f"with the older {newest[0].name}" in warning
    version, header = other_version.decode_header(newest[-1].read_text())
    assert (version, header[other_version.FROM_THE_FUTURE]) == (VERSION + 1, [1, 2])
    assert not driver_log.lines("could not save its state")
