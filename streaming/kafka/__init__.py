"""Kafka: the embedded broker, topics, and what brokers and consumer groups answer."""
