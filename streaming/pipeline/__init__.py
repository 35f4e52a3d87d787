"""Kafka-to-Delta pipelines that are defined in YAML, for `assignor run` and `run_job`."""
