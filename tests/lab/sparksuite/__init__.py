"""Spark's own suites of its Kafka source, run with the bridge on: see `__main__`."""
