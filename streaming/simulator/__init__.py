"""Plays micro-batches without a cluster: which mapping would have taken how long, and moved what.

- `scenario`: lags, costs and executors over time, from a seed
- `mappings`: Spark's own three mappings, as plans
- `schedule`: what Spark's scheduler makes of a plan: when each task ends, and where
- `play`: a scenario through mappings and assignors
"""
