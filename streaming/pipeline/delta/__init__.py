"""A sink's Delta table: created, checked, and written exactly once."""
