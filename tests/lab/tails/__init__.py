"""Heads and tails on Spark's scheduler."""
