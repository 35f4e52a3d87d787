"""Read the progress, metrics, and tasks of queries as plain data, and format their figures.

- `query_progress`: Spark's progress of a batch; `progress_log`: the JSON log of progress
- `spark_ui`: batches and tasks from Spark's UI, over `web`; `scrape`: the metrics endpoint
- `figures`: measurements of a run; `which_query`: selects a query; `masters`: Spark's addresses
- `checkpoint_files`: checkpoints on any file system; `check_result`: checks; `words`: formatting
"""
