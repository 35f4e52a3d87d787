"""`assignor demo`: time one job on real flights with Spark's default assignment and an assignor."""
