"""Settings of a broker with a remote tier in a folder; the storage is from Kafka's own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge import ivy
from streaming.kafka.embedded_setup import KAFKA

if TYPE_CHECKING:
    from pathlib import Path

#: Settings of a topic with records that soon move to the remote tier.
TOPIC = {"remote.storage.enable": "true", "segment.ms": "2000", "local.retention.ms": "1000"}
_VERSION = KAFKA.rpartition(":")[2]
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tests" module="tiered"/><dependencies>
<dependency org="org.apache.kafka" name="kafka-storage" rev="{version}" transitive="false">
<artifact name="kafka-storage" type="jar" ext="jar" m:classifier="test"/></dependency>
</dependencies></ivy-module>
"""


def settings(folder: Path) -> dict[str, str]:
    """Return a broker's settings to move records to this folder without delay."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name":
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": str(_jar()),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rsm.config.dir": str(folder),
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    }  # fmt: skip


def _jar() -> Path:
    """Return the jar of Kafka's tests; download it the first time."""
    target = ivy.cache_folder() / "jars" / f"kafka-storage-{_VERSION}-test"
    if not target.is_dir():
        with ivy.lock_cache("ivy"), ivy.create_folder(target) as folder:
            module = folder / "ivy.xml"
            module.write_text(_MODULE.format(version=_VERSION), encoding="utf-8")
            pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
            ivy.run_ivy(["-ivy", str(module), "-retrieve", pattern], "kafka-storage:test")
    return next(target.glob("*.jar"))
