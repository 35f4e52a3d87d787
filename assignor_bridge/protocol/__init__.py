"""The protocol between Java and the planner process: messages with packed columns."""
