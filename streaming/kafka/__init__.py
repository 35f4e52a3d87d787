"""Kafka: an embedded broker, requests to brokers, and client settings.

- `embedded`, `embedded_setup`, `GuardedBroker.java`: a real broker in a child process
- `topics`: create and delete topics; `brokers`: partitions, log ranges, retention; `replicas`:
  racks of replicas; `groups`, `classic_groups`: committed offsets and members of a consumer group
- `settings`, `jaas`, `java_properties`, `servers`, `utf8`: parse and check Kafka settings
"""
