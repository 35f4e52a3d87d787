"""A job's config: its models, and the way from YAML to a job that fits together."""
