"""Export a query's metrics to Prometheus, and log its batches as JSON lines.

- `config`: the `metrics:` section of a job
- `names`: the table of all metrics; `board`: the last metrics of each query
- `outlets`: endpoint, textfile, and log; `attach`: connects them to a session
"""
