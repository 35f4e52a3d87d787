"""Remembers: sticky state, Kafka's user-data bytes, Spark's offset log. Imports nothing of ours.

`checkpoints` is code: nothing here may default to writing into a folder of this name.
"""
