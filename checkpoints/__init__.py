"""Read and write sticky state and Kafka's user data, and read Spark's offset log.

It imports no other package of the project. No default path may be a folder named `checkpoints`.
"""
