"""A job's config models, and the code that loads and checks its YAML."""
