"""Kill running queries again and again, and look after each kill at what is on disk and in Kafka.

`run.kill_often` starts `driver.py` in a process group of its own: one Spark that runs two queries
on one topic, an append and an upsert job. It waits for a moment of a batch of one of them (by what
appears in the checkpoint and the table, see `moments`), waits a little longer, at random, and kills
the group with signal 9: driver, executors, planners and all; or one executor. Then it looks,
without Spark (`checks`):

- each table holds the batches whose transactions it names, each once and in order, and as many rows
  as these make;
- `assignor audit` proves each table, and invents no finding;
- what the upsert's table must hold after its last batch is computed in plain Python (`feed`), and
  kept for this version of the table;
- no consumer group is ahead of its table;
- the planner's state is not lost, and the first plan of the next driver leaves the partitions where
  they were.

At the end a last driver catches up. It checks the appended rows one by one, and reads each version
of the upserted table that a kill left: these are compared with the reference row by row.
"""
