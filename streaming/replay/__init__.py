"""`assignor estimate`: the batches of a checkpoint, planned again by other assignors.

- `log`: a checkpoint as what its batches read; `cluster`: the executors, and what a record costs
- `plan_log`: the plans that a query had; `kept_batch`, `explain`: why a batch was planned as it was
- `player`: plays the batches on the cluster, and answers whether the option would have helped
"""
