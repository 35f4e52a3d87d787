"""Whether a Delta table holds each offset of its topics exactly once, proved from its log.

Pure but for `evidence`, which reads, and `rows`, which asks Spark and brokers: commits, offset log
and files in, findings out.
"""
