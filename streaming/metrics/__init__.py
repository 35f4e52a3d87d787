"""Export a query's metrics to Prometheus, and log its batches as JSON lines.

- `config`: the `metrics:` section of a job
- `names`: definitions of all metrics; `board`: the last metrics of each query
- `outlets`: the endpoint, textfile, and log; `attach` connects them to a session
"""
