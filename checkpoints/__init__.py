"""Read and write stored state: sticky state, Kafka's user data, Spark's offset log.

It imports no other package of the project. No default path may be a folder named `checkpoints`.
"""
