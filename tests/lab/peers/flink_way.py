"""The Flink job that a user would write: SQL from Kafka to Parquet files, exactly once.

`python flink_way.py '{"servers": …, "topic": …, "table": …, "state": …, "interval_s": …, …}'`

The filesystem connector of Flink SQL is its exactly-once file sink: a file is visible once the
checkpoint that it belongs to is complete. All work is in Flink's JVM, none in Python. A restart
continues from the last complete checkpoint, as an operator would start it. It runs in an
environment of its own and imports nothing of this project.
"""

import json
import sys
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

_COLUMNS = "id BIGINT, `at` BIGINT, `key` BIGINT, `text` STRING"


def find_checkpoint(folder: Path) -> Path | None:
    """Return the last complete checkpoint; only a complete one has metadata."""
    complete = list(folder.glob("*/chk-*/_metadata"))
    return max(complete, key=lambda path: path.stat().st_mtime).parent if complete else None


def build_configuration(config: dict) -> Configuration:
    """Return the settings of the job; all others are Flink's defaults."""
    state = Path(config["state"])
    (state / "tmp").mkdir(parents=True, exist_ok=True)
    checkpoints = state / "checkpoints"
    settings = {
        "parallelism.default": str(config["cores"]),
        "pipeline.jars": ";".join(Path(jar).as_uri() for jar in config["jars"]),
        "pipeline.object-reuse": "true",
        "execution.checkpointing.interval": f"{config['interval_s']}s",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": checkpoints.as_uri(),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "io.tmp.dirs": str(state / "tmp"),
    }
    if (last := find_checkpoint(checkpoints)) is not None:
        settings["execution.state-recovery.path"] = last.as_uri()
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    return configuration


def main() -> None:
    """Copy the topic into files until the process is killed."""
    config = json.loads(sys.argv[1])
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    settings = settings.with_configuration(build_configuration(config)).build()
    tables = TableEnvironment.create(settings)
    tables.execute_sql(
        f"CREATE TABLE records ({_COLUMNS}) WITH ('connector' = 'kafka', 'format' = 'json', "
        f"'topic' = '{config['topic']}', 'scan.startup.mode' = 'earliest-offset', "
        f"'properties.bootstrap.servers' = '{config['servers']}')"
    )
    tables.execute_sql(
        f"CREATE TABLE written ({_COLUMNS}) WITH ('connector' = 'filesystem', "
        f"'format' = 'parquet', 'path' = '{Path(config['table']).as_uri()}')"
    )
    tables.execute_sql("INSERT INTO written SELECT * FROM records").wait()


if __name__ == "__main__":
    main()
