"""Kafka: an embedded broker, and requests to brokers.

- `embedded`, `embedded_setup`, `GuardedBroker.java`: a real broker in a child process
- `topics`: create and delete topics; `brokers`: partitions, log ranges, retention; `groups`:
  committed offsets and members of a consumer group; `servers`: addresses of brokers and names of
  topics; `utf8`: text that librdkafka accepts
"""
