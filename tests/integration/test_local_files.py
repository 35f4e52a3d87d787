"""Local files written without processes: the same files, and a query that goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming import run_job
from tests.support.java_program import compile_programs, run_java
from tests.support.pipeline_tools import forget_last_commit, job, rows, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

KEY = "fs.AbstractFileSystem.file.impl"


def files(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Give mode and content of all there is below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = oct(path.stat().st_mode), content
    return found


def test_they_are_hadoops_but_for_the_processes(tmp_path: Path) -> None:
    classes, by_hadoop, by_us = (tmp_path / name for name in ("classes", "hadoop", "us"))
    for folder in (classes, by_hadoop, by_us):
        folder.mkdir()
        folder.chmod(0o2775)  # of a group: what is made below shall be the group's, too
    class_path = compile_programs(classes, "LocalFilesChecks")
    done = run_java(class_path, "state.LocalFilesChecks", str(by_hadoop), str(by_us))
    hadoops, ours, left_alone = (
        line.partition(": ")[2].strip("[]").split(", ") for line in done.stdout.splitlines()
    )
    assert left_alone == ["true"]
    assert ours[:-1] == hadoops[:-1]
    assert files(by_us) == files(by_hadoop)
    assert ".0.crc" in {Path(name).name for name in files(by_us)}
    assert files(by_us)["a/b"][0] == "0o42750"
    # A link is left to `readlink`.
    assert int(ours[-1].split()[1]) < 10 <= int(hadoops[-1].split()[1])


@pytest.mark.long
def test_a_query_goes_on_with_and_without_them(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """What either wrote the other reads, over a batch that is run again."""
    topic.create(2)
    config = job(topic, tmp_path)
    config["source"]["maxOffsetsPerTrigger"] = 10
    checkpoint = tmp_path / "checkpoint" / "sink"
    modes = set()
    for number, ours in enumerate((False, True, False, True)):
        send(topic, [(str(n), f'{{"id": {n}}}') for n in range(40 * number, 40 * (number + 1))])
        if ours:
            spark.conf.set(KEY, "io.assignorbridge.LocalFiles")
        try:
            run_job(spark, config)
        finally:
            spark.conf.unset(KEY)
        forget_last_commit(checkpoint)
        newest = max(int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*"))
        modes |= {oct(file.stat().st_mode) for file in (checkpoint / "offsets").iterdir()}
        assert (checkpoint / "offsets" / f".{newest}.crc").exists()
    assert len(modes) == 1
    run_job(spark, config)
    assert rows(spark, tmp_path / "table", "id") == [(n,) for n in range(160)]
