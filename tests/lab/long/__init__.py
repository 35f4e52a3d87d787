"""Tests with Spark and Kafka that take minutes, and the programs that they start: `make long`."""
