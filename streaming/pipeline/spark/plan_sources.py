"""List a streaming DataFrame's sources in the order in which Spark numbers them in the checkpoint.

`MicroBatchExecution` traverses the analysed plan from left to right, parents before children, and
the offset log has one offset for each source relation in this order (Spark 4.0 to 4.2). This module
traverses the same plan in the same order, so it computes the numbers before the query starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from streaming.pipeline.config.base import SERVERS
from streaming.pipeline.config.sources import list_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

#: Class names of a plan's source nodes; only nodes of the first class have options.
_RELATION_CLASSES = ("StreamingRelationV2", "StreamingRelation")


class PlanSource(NamedTuple):
    """One source of a query."""

    #: Options by lower-case name; empty for a source other than Kafka.
    options: Mapping[str, str]
    #: The compiled Java pattern of `subscribePattern`; None without one.
    pattern: Any = None
    #: Node of the plan; Spark reads two equal nodes of a query as one stream.
    relation: Any = None

    @property
    def topics(self) -> list[str]:
        """The topics of `subscribe` or `assign`; empty for a pattern."""
        return list_topics(self.options)

    @property
    def is_kafka(self) -> bool:
        """Whether this is a Kafka source."""
        return bool(self.options)

    @property
    def accepts_data_loss(self) -> bool:
        """Whether `failOnDataLoss` is false."""
        return self.options.get("failondataloss", "").strip().lower() == "false"

    @property
    def commit_group(self) -> str | None:
        """Consumer group that gets the end offsets of the source's batches; None if not set."""
        return self.options.get("assignor.commitgroup")

    def commits_with(self, other: PlanSource) -> bool:
        """Return whether both sources may commit offsets of one partition to the same group.

        Callers check first that there is a group.
        """
        names = (SERVERS, "assignor.commitgroup")
        if any(self.options.get(name) != other.options.get(name) for name in names):
            return False
        has_pattern = self.pattern is not None or other.pattern is not None
        return has_pattern or not set(self.topics).isdisjoint(other.topics)

    def reads(self, topic: str) -> bool:
        """Return whether the source reads a topic. In Spark, a pattern may match part of a name."""
        if self.pattern is not None:
            return bool(self.pattern.matcher(topic).find())
        return topic in self.topics

    def has_options(self, options: Mapping[str, str]) -> bool:
        """Return whether the source has all of these options."""
        return all(self.options.get(name.lower()) == value for name, value in options.items())


def list_plan_sources(rows: DataFrame) -> list[PlanSource]:
    """Return the sources of a streaming DataFrame in the order of their numbers."""
    jvm: Any = rows.sparkSession._jvm
    leaves: Any = rows._jdf.queryExecution().analyzed().collectLeaves()
    sources = []
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        class_name = leaf.getClass().getSimpleName()
        if class_name not in _RELATION_CLASSES:
            continue
        options = dict(leaf.extraOptions()) if class_name == _RELATION_CLASSES[0] else {}
        if SERVERS not in options:  # not a Kafka source
            options = {}
        regex = options.get("subscribepattern")
        pattern = jvm.java.util.regex.Pattern.compile(regex) if regex is not None else None
        sources.append(PlanSource(options, pattern, leaf))
    return sources
