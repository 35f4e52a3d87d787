"""What a user runs: the command line, the embedded broker, the demo, reports and pipelines."""
