"""Fuzzing of every reader of what others wrote, guided by the coverage of our code: `make fuzz`."""
