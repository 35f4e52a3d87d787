"""What proves a release and `make test` does not run: `make evidence` runs it, step by step.

- `evidence`: the steps of `make evidence`, and which of them have passed
- `unit`: tests of the modules of this folder
- `long`: tests with Spark and Kafka that take minutes
- `benchmarks`, `compat`, `faults`, `fuzz`, `kills`, `release`, `security`, `sparksuite`: see there
"""
