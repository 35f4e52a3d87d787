"""What brokers count themselves: requests by kind, connections, fetch sessions.

Read from a broker's own metrics over JMX, as operators do, by the JVM of a Spark driver that runs
anyway: `jcmd` opens the way in, for this machine and user only.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assignor_bridge import ivy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

#: Consumers' fetches only: brokers that follow are `FetchFollower`, and `Fetch` is both.
FETCH = "FetchConsumer"
_REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,*"
_SESSIONS = "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions"
_EVICTED = "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec"
_SOCKETS = "kafka.server:type=socket-server-metrics,listener=PLAINTEXT,networkProcessor=*"
_ADDRESS = "sun.management.JMXConnectorServer.address"


@dataclass(frozen=True)
class Counts:
    """Sums over all brokers since their start; `sessions` are those of now."""

    requests: Counter[str]
    made: int
    sessions: int
    evicted: int

    def since(self, before: Counts) -> Counts:
        """Return what came after an earlier look; sessions stay those of now."""
        return Counts(
            self.requests - before.requests,
            self.made - before.made,
            self.sessions,
            self.evicted - before.evicted,
        )


class BrokerCounts:
    """Reads the counters of brokers, by their process ids."""

    def __init__(self, spark: SparkSession, pids: Sequence[int]) -> None:
        self._management: Any = spark._jvm.javax.management
        self._brokers = [self._connected(pid) for pid in pids]

    def read(self) -> Counts:
        """Look at all counters now."""
        requests: Counter[str] = Counter()
        for name, count in self._each(_REQUESTS, "Count"):
            requests[name.getKeyProperty("request")] += count
        return Counts(
            requests,
            made=self._sum(_SOCKETS, "connection-creation-total"),
            sessions=self._sum(_SESSIONS, "Value"),
            evicted=self._sum(_EVICTED, "Count"),
        )

    def _sum(self, pattern: str, attribute: str) -> int:
        found = [value for _, value in self._each(pattern, attribute)]
        assert found, f"no broker has {pattern}"  # a Kafka that calls it otherwise
        return int(sum(found))

    def _each(self, pattern: str, attribute: str) -> Iterator[tuple[Any, float]]:
        for broker in self._brokers:
            for name in broker.queryNames(self._management.ObjectName(pattern), None):
                yield name, broker.getAttribute(name, attribute)

    def _connected(self, pid: int) -> Any:
        jcmd(pid, "ManagementAgent.start_local")
        [line] = [row for row in jcmd(pid, "PerfCounter.print").splitlines() if _ADDRESS in row]
        remote = self._management.remote
        url = remote.JMXServiceURL(line.partition("=")[2].strip('"'))
        return remote.JMXConnectorFactory.connect(url, None).getMBeanServerConnection()


def jcmd(pid: int, command: str) -> str:
    """Ask a JVM of this user."""
    asked = [ivy.find_tool("jcmd"), str(pid), command]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout
