"""A query's figures for operators: Prometheus metrics under names they know, and JSON log lines.

- `config`: the `metrics:` section of a job
- `progress`: what a query's progress says, as plain data
- `names`: the table of all metrics
- `board`: the last figures of each query; `lag_seconds`: how old the oldest unread record is
- `outlets`: endpoint, textfile, log
- `attach`: puts them onto a session
"""
