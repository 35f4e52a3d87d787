"""Run pipelines from Kafka to Delta that YAML defines: `assignor run` and `run_job`."""
