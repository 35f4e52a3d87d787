"""Kafka: an embedded broker, and what brokers answer.

- `embedded`, `embedded_setup`, `GuardedBroker.java`: a real broker in a child process
- `topics`: create and delete topics; `brokers`: partitions, log ranges, retention; `groups`:
  committed offsets and members of a consumer group; `servers`: the text with their addresses;
  `utf8`: text that librdkafka takes
"""
