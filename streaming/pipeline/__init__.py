"""Pipelines from YAML: from Kafka to Delta, for `assignor run` and `run_job`."""
