"""Read and write stored state: sticky state, Kafka's user data, Spark's offset log.

This package imports no other one of the project. No path may default to a folder of its name.
"""
