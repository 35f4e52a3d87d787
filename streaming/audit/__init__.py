"""Prove from a Delta table's log that the table holds each offset of its topics exactly once.

The checks are pure functions of commits, offset log, and files. Only two modules do I/O: `evidence`
reads the table and the checkpoint, `row_sources` reads rows from Spark and records from brokers.
"""
