"""A query's figures for operators: Prometheus metrics under names they know, and JSON log lines.

- `config`: the `metrics:` section of a job
- `names`: the table of all metrics; `board`: the last figures of each query, by that table
- `outlets`: endpoint, textfile, log; `attach`: puts them onto a session
"""
