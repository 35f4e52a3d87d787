"""Prove from a Delta table's log that the table holds each offset of its topics exactly once.

Only two modules do I/O: `audited_files` reads the table and the checkpoint, `row_sources` reads the
rows with Spark and the records from brokers.
"""
