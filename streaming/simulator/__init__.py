"""Simulate micro-batches without a cluster, to compare the time and moves of mappings.

- `scenario`: lags, costs, and executors over time, generated from a seed
- `mappings`: Spark's three built-in mappings; `play`: plays a scenario with them and assignors
- `schedule`: a model of Spark's scheduler; `results`: times, moves, and cold starts
"""
