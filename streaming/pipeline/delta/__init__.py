"""A sink's Delta table: made, checked, and written exactly once."""
