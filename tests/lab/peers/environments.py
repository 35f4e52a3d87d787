"""Virtual environments and jars of the peers, below `build/peers/`.

Packages and jars are named by version and come through the ordinary clients: pip for packages,
Ivy for jars. `make test` uses none of them.

Flink is 2.3, because the Parquet format of 2.2 is not in the repository. The newest Kafka connector
(5.0.0) is built for 2.2; it uses only Flink's public API and runs with 2.3. There is no Delta sink
for Flink: `io.delta:delta-flink` is not in the repository for Delta 4.4. Flink's Parquet format
needs Hadoop's classes, which Flink does not ship.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from assignor_bridge import ivy
from assignor_bridge.errors import AssignorError

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "peers"
FLINK = "2.3.0"
#: Coordinates of the jars that the Flink job adds to Flink's own; none is fetched transitively.
FLINK_JARS = (
    "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
    f"org.apache.flink:flink-sql-parquet:{FLINK}",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
)
#: pyarrow parses the JSON of the loop, and reads the output of all ways.
LOOP_PACKAGES = ("confluent-kafka==2.16.1", "deltalake==1.6.6", "numpy>=1.26", "pyarrow==26.0.1")
FLINK_PACKAGES = (f"apache-flink=={FLINK}",)


class PeerEnvironmentError(AssignorError):
    """An environment could not be made."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with these packages, made on first use."""

    name: str
    packages: tuple[str, ...]

    @property
    def python(self) -> Path:
        """Path of its interpreter."""
        return BUILD / self.name / "bin" / "python"

    def make(self) -> Path:
        """Return the interpreter; make the environment again if the packages have changed."""
        ready = BUILD / self.name / ".ready"
        wanted = "\n".join(self.packages)
        if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
            _run(sys.executable, "-m", "venv", "--clear", str(BUILD / self.name))
            _run(str(self.python), "-m", "pip", "install", "--quiet", *self.packages)
            ready.write_text(wanted, encoding="utf-8")
        return self.python


LOOP_ENVIRONMENT = Environment("loop", LOOP_PACKAGES)
FLINK_ENVIRONMENT = Environment("flink", FLINK_PACKAGES)


def fetch_flink_jars() -> list[Path]:
    """Return the jars of `FLINK_JARS`; the first call downloads them."""
    return [jar for each in FLINK_JARS for jar in ivy.fetch(each, transitive=False)]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerEnvironmentError(f"{' '.join(command)} failed: {done.stderr.strip()[-1500:]}")
