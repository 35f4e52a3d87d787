"""Replay the batches of a checkpoint with other assignors, for `assignor estimate`.

- `log`: the ranges that batches read; `cluster`: the executors, and the cost of a record
- `plan_log`: the query's logged plans; `kept_batch`, `one_batch`: the reasons for a batch's plan
- `racks_input`, `traffic`, `bill`: the cost of reads across zones; `replayed`: the results
- `player`: replays the batches on the cluster; `answers`: reports whether the assignor would help
"""
