"""The ways to copy a topic to files of Parquet: what each starts, and what it writes.

Each is a process of its own, started as its user would: its memory and processor time are those of
the process and all of its descendants.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from streaming.demo.spark_process import link_spark_home
from tests.lab.peers.environments import (
    FLINK_ENVIRONMENT,
    LOOP_ENVIRONMENT,
    ROOT,
    fetch_flink_jars,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Slots of Spark and of Flink; the loop is one process with the threads of its libraries.
CORES = 2
#: Heap of a JVM: the same for Spark and Flink.
HEAP = "2g"
#: Columns of the records of `Feed.java`.
SCHEMA = "id BIGINT, at BIGINT, key BIGINT, text STRING"
_PROGRAMS = Path(__file__).parent
#: A job file of `assignor run`; JSON is YAML.
_JOB = "job.yaml"


@dataclass(frozen=True)
class Place:
    """Where one run reads and writes."""

    servers: str
    topic: str
    partitions: int
    #: Folder of this run.
    folder: Path
    #: Seconds between two commits.
    interval_s: int

    @property
    def table(self) -> Path:
        """Folder of the output."""
        return self.folder / "table"

    @property
    def state(self) -> Path:
        """Folder of checkpoints and scratch files."""
        return self.folder / "state"


@dataclass(frozen=True)
class Way:
    """One way: its name on the page, and how it is started."""

    name: str
    title: str
    #: How rows become visible: by Delta's log, or as files that get their final name.
    output: Literal["delta", "files"]

    def command(self, place: Place) -> list[str]:
        """Return the command that copies the topic; prepare what it needs."""
        place.folder.mkdir(parents=True, exist_ok=True)
        config = {
            "servers": place.servers,
            "topic": place.topic,
            "partitions": place.partitions,
            "table": str(place.table),
            "state": str(place.state),
            "interval_s": place.interval_s,
            "cores": CORES,
        }
        if self.name == "run":
            return self._run_command(place)
        if self.name == "flink":
            config["jars"] = list(map(str, fetch_flink_jars()))
            program = [str(FLINK_ENVIRONMENT.make()), str(_PROGRAMS / "flink_way.py")]
        elif self.name == "loop":
            program = [str(LOOP_ENVIRONMENT.make()), str(_PROGRAMS / "loop_way.py")]
        else:
            config["kind"] = self.name
            program = [sys.executable, "-m", "tests.lab.peers.spark_way"]
        return [*program, json.dumps(config)]

    def environment(self, place: Place) -> Mapping[str, str]:
        """Return the environment variables of the process."""
        if self.name == "loop":
            return os.environ
        if self.name == "flink":
            # What Flink's scripts take for the options of the client's JVM, which runs the job.
            return os.environ | {"JVM_ARGS": f"-Xmx{HEAP}", "FLINK_LOG_DIR": str(place.folder)}
        return os.environ | {
            "PYTHONPATH": str(ROOT),
            "SPARK_HOME": str(_find_spark_home(place.folder)),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    @staticmethod
    def _run_command(place: Place) -> list[str]:
        job = {
            "name": "peers",
            "kafka.bootstrap.servers": place.servers,
            "source": {
                "subscribe": place.topic,
                "records": {"format": "json", "schema": SCHEMA},
                "assignor.onError": "fail",
            },
            "sink": {"path": str(place.table)},
            "trigger": f"processingTime {place.interval_s} seconds",
            "checkpoint": str(place.state / "checkpoint"),
            "spark": {
                "spark.master": f"local[{CORES}]",
                "spark.driver.memory": HEAP,
                "spark.ui.enabled": "false",
            },
        }
        path = place.folder / _JOB
        path.write_text(json.dumps(job, indent=1), encoding="utf-8")
        return [sys.executable, "-m", "streaming.cli.main", "run", str(path)]


def _find_spark_home(folder: Path) -> Path:
    """Return the Spark home of a run, which a start before a kill may have made."""
    made = folder / "spark-home"
    return made if made.is_dir() else link_spark_home(folder)


#: In the order of the page.
WAYS: Mapping[str, Way] = {
    way.name: way
    for way in (
        Way("default", "Spark: default", "delta"),
        Way("tuned", "Spark: tuned", "delta"),
        Way("option", "the option in a user's own writeStream", "delta"),
        Way("run", "assignor run", "delta"),
        Way("flink", "Flink SQL, files without a table", "files"),
        Way("loop", "loop of confluent-kafka and deltalake", "delta"),
    )
}
