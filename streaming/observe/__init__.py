"""What a running query tells, as plain data: progress, metrics, Spark's UI, checkpoints, checks."""
