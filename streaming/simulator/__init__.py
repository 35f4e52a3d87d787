"""Simulate micro-batches without a cluster, to compare the time and moves of mappings.

- `scenario`: lags, costs, and executors over time, generated from a seed
- `mappings`: Spark's three built-in mappings
- `schedule`: a model of Spark's scheduler, which computes where and when each task ends
- `results`: what a batch and a mapping took, moved, and read cold
- `play`: runs a scenario with mappings and assignors
"""
