"""What a running query reports, as plain data, and how facts are written.

- `query_progress`: Spark's progress of a batch; `progress_log`: lines of JSON with it
- `spark_ui`: batches and tasks by Spark's UI, over `web`; `scrape`: the metrics endpoint
- `figures`: what was measured of a run; `which_query`: which of several queries is meant
- `checkpoint_files`: checkpoints on any file system; `check`: a check; `words`: figures in words
"""
