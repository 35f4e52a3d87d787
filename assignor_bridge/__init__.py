"""Decides who reads which Kafka offsets in a Spark micro-batch, and carries the decision to Spark.

`configure_spark` adds the bridge to a `SparkSession.builder`; the rest is plain data: see `model`,
`assignors` and `planner`.
"""

__version__ = "0.1.0"
