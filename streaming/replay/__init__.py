"""Replay the batches of a checkpoint with other assignors, for `assignor estimate`.

- `log`: the ranges that batches read; `cluster`: the executors, and the cost of a record
- `plan_log`: the plans that a query had; `kept_batch`, `explain`: why a batch was planned so
- `player`: replays the batches on the cluster; `answers`: reports whether the option would help
"""
