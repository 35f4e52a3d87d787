"""Kafka: an embedded broker, requests to brokers, and client settings.

- `embedded`, `embedded_setup`, `GuardedBroker.java`: a real broker in a child process
- `topics`: create and delete topics; `brokers`: partitions, log ranges, retention; `groups`:
  committed offsets and members of a consumer group; `replicas`: racks of replicas
- `settings`, `jaas`, `java_properties`, `servers`, `utf8`: parse and check Kafka settings
"""
