"""Models of a job's config, and loading and checking it from YAML."""
